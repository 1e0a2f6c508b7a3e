#include "engine/cpu/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft::cpu {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The cores that this process is bound to, each with its hardware threads.
std::vector<std::vector<int>> bound_cores() {
  cpu_set_t bound;
  if (sched_getaffinity(0, sizeof bound, &bound) != 0) return {};
  std::vector<std::vector<int>> cores;
  std::map<std::string, std::size_t> known;  // by the list of its hardware threads
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &bound)) {
      const std::string cpu = std::to_string(i);
      const std::string siblings =
          first_line("/sys/devices/system/cpu/cpu" + cpu + "/topology/thread_siblings_list");
      const auto [at, fresh] = known.emplace(siblings.empty() ? "cpu" + cpu : siblings, cores.size());
      if (fresh) cores.emplace_back();
      cores[at->second].push_back(i);
    }
  return cores;
}

}  // namespace

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      if (colon != line.npos) return printable(line.substr(colon + 2), 120);
    }
  return "unknown processor";
}

int quota_cores(std::string_view cpu_max) {
  std::istringstream text{std::string(cpu_max)};
  long quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp((quota + period - 1) / period, 1l, 1l << 20));
}

int usable_cores() {
  const int found = std::max(1, static_cast<int>(bound_cores().size()));
  const int quota = quota_cores(first_line("/sys/fs/cgroup/cpu.max"));
  return quota > 0 ? std::min(found, quota) : found;
}

void take_share_of_cores(int index, int of) {
  const auto cores = bound_cores();
  if (cores.empty() || of <= 1) return;
  const std::size_t n = cores.size(), i = static_cast<std::size_t>(index), all = static_cast<std::size_t>(of);
  const std::size_t first = n < all ? i % n : n * i / all, end = n < all ? first + 1 : n * (i + 1) / all;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (std::size_t c = first; c < end; ++c)
    for (const int cpu : cores[c]) CPU_SET(cpu, &mine);
  sched_setaffinity(0, sizeof mine, &mine);  // if refused, the ranks share all cores, only slower
}

}  // namespace ft::cpu
