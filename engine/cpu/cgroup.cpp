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

// Names of the files in a group's folder, in one version of cgroups.
struct Names {
  // droppable: key in memory.stat whose value is the bytes of file pages that can be dropped
  const char *limit, *used, *droppable;
};
constexpr Names kFirst{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kSecond{"memory.max", "memory.current", "inactive_file"};

// The number in a file that holds one; empty for "max" or a missing file.
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
  // version 1 writes the largest number of pages if there is no limit
  if (!limit || *limit > kNone / 2) return kNone;
  const std::int64_t used = number_in(folder / names.used).value_or(0);
  const std::int64_t kept = used - statistic(folder / "memory.stat", names.droppable);
  return std::clamp(*limit - kept, std::int64_t{0}, *limit);
}

// Memory left along a group's path below the mount point. A container may see only the upper part of the
// path.
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
