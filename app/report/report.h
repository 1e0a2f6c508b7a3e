// ft report: writes a page about one run, or about several side by side.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct ReportArgs {
  std::vector<std::string> runs;  // folders
  std::string output = "report.html";
  bool overwrite = false;
};
Exit report(const ReportArgs& args);

}  // namespace ft
