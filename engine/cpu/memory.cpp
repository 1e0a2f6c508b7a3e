#include "engine/cpu/memory.h"

#include <sys/mman.h>

#include <fstream>
#include <iomanip>
#include <limits>

#include "engine/core/error.h"

namespace ft::cpu {
namespace {

std::string gib(std::int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << double(bytes) / double(1 << 30) << " GiB";
  return out.str();
}

}  // namespace

std::int64_t available_memory() {
  std::ifstream info("/proc/meminfo");
  std::string key, unit;
  for (std::int64_t kib = 0; info >> key >> kib; std::getline(info, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return std::numeric_limits<std::int64_t>::max();
}

Buffer reserve(std::int64_t bytes) {
  require(bytes >= 0, "reserve: a negative size");
  const std::int64_t available = available_memory();
  const auto refuse = [&] {
    throw UserError(Exit::memory,
                    str("not enough memory: ", gib(bytes), " are needed at once, ", gib(available),
                        " are available; use shorter or fewer sequences in a batch, bf16, or "
                        "gradient_checkpointing (`ft plan` says what a run needs)"));
  };
  if (bytes > available) refuse();  // the system would promise it, and kill us when it is used
  const std::size_t size = std::size_t(bytes > 0 ? bytes : 1);
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) refuse();
  madvise(p, size, MADV_HUGEPAGE);  // only a wish
  return {static_cast<std::byte*>(p), [size](std::byte* q) { munmap(q, size); }};
}

}  // namespace ft::cpu
