#include "engine/cpu/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace ft::cpu {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

int quota_cores(std::string_view cpu_max) {
  std::istringstream text{std::string(cpu_max)};
  long quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp((quota + period - 1) / period, 1l, 1l << 20));
}

int usable_cores() {
  cpu_set_t bound;
  if (sched_getaffinity(0, sizeof bound, &bound) != 0) return 1;
  std::set<std::string> cores;  // each by the list of its hardware threads
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &bound)) {
      const std::string cpu = std::to_string(i);
      const std::string siblings =
          first_line("/sys/devices/system/cpu/cpu" + cpu + "/topology/thread_siblings_list");
      cores.insert(siblings.empty() ? "cpu" + cpu : siblings);
    }
  const int found = std::max(1, static_cast<int>(cores.size()));
  const int quota = quota_cores(first_line("/sys/fs/cgroup/cpu.max"));
  return quota > 0 ? std::min(found, quota) : found;
}

}  // namespace ft::cpu
