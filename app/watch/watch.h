// ft watch: serves a page that follows runs while they train.
#pragma once
#include <string>
#include <vector>

#include "app/http/http.h"
#include "engine/core/error.h"

namespace ft {

struct WatchArgs {
  std::vector<std::string> runs;  // folders
  std::string host = "127.0.0.1";
  int port = 8001;
  std::vector<std::string> allowed_origins;  // pages in browsers that may read the page
  std::string key_file;                      // empty: no key
  CertificateFiles https;
};
Exit watch(const WatchArgs&);

}  // namespace ft
