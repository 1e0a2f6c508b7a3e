#include "engine/cpu/cgroup.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

namespace ft::cpu {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

// Names of one version's files, in a group's folder.
struct Names {
  const char *limit, *used, *droppable;  // droppable: a key of memory.stat, bytes of file pages
};
constexpr Names kFirst{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kSecond{"memory.max", "memory.current", "inactive_file"};

// The number in a file of one; nothing for "max" and where there is no such file.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t n = 0;
  if (in >> n) return n;
  return std::nullopt;
}

std::int64_t statistic(const fs::path& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string key;
  for (std::int64_t n = 0; in >> key >> n;)
    if (key == wanted) return n;
  return 0;
}

std::int64_t left_in(const fs::path& folder, const Names& names) {
  const auto limit = number_in(folder / names.limit);
  if (!limit || *limit > kNone / 2) return kNone;  // version 1 writes the largest number of pages for none
  const std::int64_t used = number_in(folder / names.used).value_or(0);
  const std::int64_t kept = used - statistic(folder / "memory.stat", names.droppable);
  return std::clamp(*limit - kept, std::int64_t{0}, *limit);
}

// `path` is the group's from the mount point on. A container may see only the upper part of it.
std::int64_t left_along(const fs::path& mount, const std::string& path, const Names& names) {
  std::int64_t left = left_in(mount, names);
  fs::path folder = mount;
  for (const fs::path& part : fs::path(path).relative_path())
    left = std::min(left, left_in(folder /= part, names));
  return left;
}

}  // namespace

std::int64_t memory_left_by_cgroups(const std::string& groups, const std::string& root) {
  std::ifstream in(groups);
  std::int64_t left = kNone;
  for (std::string line; std::getline(in, line);) {  // number:controllers:path
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      left = std::min(left, left_along(root, path, kSecond));
      left = std::min(left, left_along(root + "/unified", path, kSecond));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, left_along(root + "/memory", path, kFirst));
    }
  }
  return left;
}

}  // namespace ft::cpu
