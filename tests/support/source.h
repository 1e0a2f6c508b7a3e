// Files of this repository that tests read.
#pragma once
#include <string>
#include <string_view>

namespace ft {

// Returns the repository's root; "." in programs that are copied to other machines and run in the root there.
std::string_view source_root();

inline std::string source_path(std::string_view path) {
  return std::string(source_root()).append("/").append(path);
}

}  // namespace ft
