#include "tests/cuda_on_cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/cuda_on_cpu/cuda_runtime.h"

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kGuard = 256, kAlign = 256;
constexpr unsigned char kUntouched = 0xa7, kFresh = 0xff;  // fresh memory reads as NaN
// larger allocations stay zero, so that they take no real memory
constexpr std::size_t kMostFresh = 32 << 20;

}  // namespace

Memory::Memory()
    : base_(static_cast<std::byte*>(
          mmap(nullptr, kSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}

void* Memory::take(std::size_t bytes) {
  const std::size_t all = (bytes + kGuard + kAlign - 1) / kAlign * kAlign;
  if (all < bytes || used_ + all > kSpace) return nullptr;
  std::byte* p = base_ + used_;
  used_ += all;
  const Open open(*this);
  if (bytes <= kMostFresh) std::memset(p, kFresh, bytes);
  std::memset(p + bytes, kUntouched, kGuard);
  live_[p] = bytes;
  return p;
}

bool Memory::give_back(void* p) {
  const auto it = live_.find(static_cast<std::byte*>(p));
  if (it == live_.end()) return false;
  live_.erase(it);
  if (live_.empty()) {
    madvise(base_, pages(), MADV_DONTNEED);
    used_ = 0;
  }
  return true;
}

bool Memory::holds(const void* p, std::size_t bytes) const {
  auto* at = static_cast<std::byte*>(const_cast<void*>(p));
  auto it = live_.upper_bound(at);
  if (it == live_.begin()) return false;
  --it;
  return at + bytes <= it->first + it->second;
}

void Memory::check_guards() const {
  for (const auto& [p, bytes] : live_)
    if (!std::all_of(p + bytes, p + bytes + kGuard, [](std::byte b) { return b == std::byte{kUntouched}; }))
      throw Fault("a write beyond device memory of " + std::to_string(bytes) + " bytes");
}

Memory::Open::Open(Memory& m) : memory_(m) { mprotect(m.base_, m.pages(), PROT_READ | PROT_WRITE); }
Memory::Open::~Open() { mprotect(memory_.base_, memory_.pages(), PROT_NONE); }

Memory& memory() {
  static Memory m;
  return m;
}

}  // namespace cuda_on_cpu
