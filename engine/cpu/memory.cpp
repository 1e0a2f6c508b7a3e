#include "engine/cpu/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <limits>

#include "engine/core/error.h"
#include "engine/cpu/cgroup.h"

namespace ft::cpu {
namespace {

std::string amount(std::int64_t bytes) {
  const bool large = bytes >= std::int64_t{1} << 30;
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << double(bytes) / double(large ? 1 << 30 : 1 << 20)
      << (large ? " GiB" : " MiB");
  return out.str();
}

// Bytes that the machine could provide without swapping.
std::int64_t machines_memory() {
  std::ifstream info("/proc/meminfo");
  std::string key, unit;
  for (std::int64_t kib = 0; info >> key >> kib; std::getline(info, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return std::numeric_limits<std::int64_t>::max();
}

// The reason why the system has no addresses although there is memory, for messages.
std::string address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return "the system refuses them (vm.overcommit_memory or vm.max_map_count may be too strict)";
  return str("this process may have ", amount(static_cast<std::int64_t>(limit.rlim_cur)),
             " of addresses in all (`ulimit -v unlimited` lifts that)");
}

}  // namespace

std::int64_t available_memory() { return std::min(machines_memory(), memory_left_by_cgroups()); }

Buffer reserve(std::int64_t bytes) {
  require(bytes >= 0, "reserve: a negative size");
  const std::int64_t available = available_memory();
  const auto refuse = [&](const std::string& found) {
    throw UserError(Exit::memory, str("not enough memory: ", amount(bytes), " are needed at once, ", found,
                                      "; use shorter or fewer sequences in a batch, bf16, or "
                                      "gradient_checkpointing (`ft plan` shows the memory of a run)"));
  };
  // Refuses more than is available: the system would promise it, and kill the process when it is used.
  if (bytes > available) refuse(str(amount(available), " are available"));
  const std::size_t size = std::size_t(bytes > 0 ? bytes : 1);
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) refuse(address_space());
  madvise(p, size, MADV_HUGEPAGE);  // only a hint
  return {static_cast<std::byte*>(p), [size](std::byte* q) { munmap(q, size); }};
}

}  // namespace ft::cpu
