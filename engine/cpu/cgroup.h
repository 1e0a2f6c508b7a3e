// Memory limits of the control groups that this process is in, as containers and job schedulers set them.
#pragma once
#include <cstdint>
#include <string>

namespace ft::cpu {

// Bytes that this process may still take: the least that its group, or a group above it, has left. File pages
// that the system can drop count as left. The largest number if nothing is limited. Reads versions 1 and 2
// (Linux: Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
// groups: file with this process's groups, one per line; root: the folder under which they are mounted.
std::int64_t memory_left_by_cgroups(const std::string& groups = "/proc/self/cgroup",
                                    const std::string& root = "/sys/fs/cgroup");

}  // namespace ft::cpu
