#include "app/hub/access.h"

#include <algorithm>

#include "engine/core/environment.h"
#include "engine/core/error.h"
#include "engine/core/lower_case.h"
#include "engine/files/file.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

// Returns the first variable of these that is set.
std::string first_variable(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string value = variable(name); !value.empty()) return value;
  return "";
}

bool is_true(const char* name) {
  const std::string value = lower_case(variable(name));
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

fs::path hub_home() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) return home_expanded(home);
  const std::string caches = variable("XDG_CACHE_HOME");
  return fs::path(home_expanded(caches.empty() ? "~/.cache" : caches)) / "huggingface";
}

std::string without_blanks(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Sets the token and its source.
void find_token(Access& access) {
  if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    access.token = without_blanks(variable(name));
    access.token_source = name;
    if (!access.token.empty()) return;
  }
  const std::string given = variable("HF_TOKEN_PATH");
  const std::string file = given.empty() ? (hub_home() / "token").string() : home_expanded(given);
  constexpr std::int64_t kLargest = 1 << 16;
  std::error_code none;
  if (fs::is_regular_file(file, none)) access.token = without_blanks(read_file(file, kLargest, Exit::config));
  access.token_source = access.token.empty() ? "" : file;
}

void check_token(const Access& access) {
  const auto printed = [](char c) { return c > ' ' && c < 0x7f; };
  if (!std::all_of(access.token.begin(), access.token.end(), printed))
    throw UserError(Exit::config, str(printable(access.token_source),
                                      ": holds no token: a token has no blanks and only ASCII characters"));
}

std::string endpoint() {
  const std::string given = variable("HF_ENDPOINT");
  const std::string address = without_slash(given.empty() ? "https://huggingface.co" : given);
  const bool known = address.starts_with("https://") || address.starts_with("http://");
  if (!known || address.find_first_of("?#@ ") != address.npos || address.ends_with('/'))
    throw UserError(Exit::config,
                    str("HF_ENDPOINT: ", printable(address.substr(address.rfind('@') + 1)),
                        " is no address of a hub, such as https://huggingface.co",
                        address.find('@') == address.npos ? "" : "; leave the name and the password out"));
  return address;
}

// Returns the file of trusted authorities: a variable's, else the system's.
std::string certificates() {
  if (std::string given = first_variable({"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
      !given.empty())
    return home_expanded(given);
  std::error_code none;
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (fs::is_regular_file(file, none)) return file;
  return "";
}

}  // namespace

fs::path cache_folder() {
  const std::string folder = first_variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  return folder.empty() ? hub_home() / "hub" : fs::path(home_expanded(folder));
}

std::string Access::page(bool dataset, const std::string& id) const {
  return endpoint + (dataset ? "/datasets/" : "/") + id;
}

Access find_access() {
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})
    if (is_true(name))
      throw UserError(Exit::config,
                      str(name, " is set, so nothing is fetched; unset it to open connections"));
  Access access;
  access.cache = cache_folder();
  access.endpoint = endpoint();
  access.certificates = certificates();
  find_token(access);
  check_token(access);
  return access;
}

}  // namespace ft::hub
