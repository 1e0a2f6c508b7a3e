// Hints for paths that do not exist.
#pragma once
#include <filesystem>
#include <string>

namespace ft {

// Returns "; do you mean models/llama?" if a neighbour of the missing path has a similar name, else "; models
// has llama, t5" if its folder exists, else "". Relative paths are relative to `base`.
std::string hint_about_path(const std::filesystem::path& missing, const std::filesystem::path& base = {});

}  // namespace ft
