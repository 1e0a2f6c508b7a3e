#include "app/hub/curl_library.h"

#include "app/hub/http_client.h"
#include "engine/core/error.h"
#include "engine/core/library_symbols.h"

namespace ft::hub {
namespace {

constexpr unsigned int kOldest = 0x075500;  // 7.85.0: CURLOPT_PROTOCOLS_STR
constexpr const char* kInstall = "install it: apt-get install libcurl4 (Fedora: dnf install libcurl)";

void* open_any(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw UserError(Exit::hardware, str("ft opens connections with libcurl, and ", names.front(),
                                      " is not found here; ", kInstall));
}

}  // namespace

CurlLibrary load_curl(const std::vector<std::string>& names) {
  LibrarySymbols symbols(open_any(names));
  CurlLibrary f{};
  symbols.find(f.global_init, "curl_global_init");
  symbols.find(f.version_info, "curl_version_info");
  symbols.find(f.easy_init, "curl_easy_init");
  symbols.find(f.easy_cleanup, "curl_easy_cleanup");
  symbols.find(f.easy_reset, "curl_easy_reset");
  symbols.find(f.easy_setopt, "curl_easy_setopt");
  symbols.find(f.easy_perform, "curl_easy_perform");
  symbols.find(f.easy_strerror, "curl_easy_strerror");
  symbols.find(f.slist_append, "curl_slist_append");
  symbols.find(f.slist_free_all, "curl_slist_free_all");
  symbols.find(f.url, "curl_url");
  symbols.find(f.url_set, "curl_url_set");
  symbols.find(f.url_get, "curl_url_get");
  symbols.find(f.url_cleanup, "curl_url_cleanup");
  symbols.find(f.free, "curl_free");
  symbols.find(f.getdate, "curl_getdate");
  if (symbols.missing())
    throw UserError(Exit::hardware,
                    str("the libcurl of this machine has no ", symbols.missing(), "; ", kInstall));
  require(f.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl");
  const curl_version_info_data& version = *f.version_info(CURLVERSION_NOW);
  if (version.version_num < kOldest)
    throw UserError(Exit::hardware, str("the libcurl of this machine is ", version.version,
                                        ", and ft needs 7.85 or later; ", kInstall));
  return f;
}

// Debian's other builds have the same functions, with another library for TLS.
const CurlLibrary& curl() {
  static const CurlLibrary functions = load_curl({"libcurl.so.4", "libcurl-gnutls.so.4"});
  return functions;
}

std::string http_library_version() { return str("libcurl ", curl().version_info(CURLVERSION_NOW)->version); }

}  // namespace ft::hub
