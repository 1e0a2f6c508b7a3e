#include "engine/core/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ft {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void set_variable(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

std::vector<std::pair<std::string, std::string>> variables() {
  std::vector<std::pair<std::string, std::string>> all;
  for (char** e = ::environ; *e; ++e) {
    const std::string entry = *e;
    const std::size_t at = std::min(entry.find('='), entry.size());
    all.emplace_back(entry.substr(0, at), entry.substr(std::min(at + 1, entry.size())));
  }
  return all;
}

}  // namespace ft
