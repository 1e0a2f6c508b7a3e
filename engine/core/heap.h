// Memory taken and given back in any order. take() uses the first gap that is wide enough: the same requests
// always get the same places, so the heap's size can be planned, as an Arena's is.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "engine/core/arena.h"

namespace ft {

class Heap {
 public:
  static constexpr std::int64_t kEndless = std::int64_t{1} << 60;  // bytes, for NullOps

  Heap(Buffer memory, std::int64_t capacity) : memory_(std::move(memory)), capacity_(capacity) {}

  std::byte* take(std::int64_t bytes) {
    bytes = std::max<std::int64_t>(1, (bytes + Arena::kAlign - 1) / Arena::kAlign) * Arena::kAlign;
    std::int64_t at = 0;
    for (const auto& [first, size] : taken_) {
      if (first - at >= bytes) break;
      at = first + size;
    }
    require(at + bytes <= capacity_, "the heap is smaller than the plan said");
    taken_[at] = bytes;
    peak_ = std::max(peak_, at + bytes);
    return memory_.get() + at;
  }
  void give_back(const std::byte* taken) {
    require(taken_.erase(taken - memory_.get()) == 1,
            "memory that is returned to the heap was not taken from it");
  }
  // Bytes of its memory. For an endless heap: the bytes that would have been enough.
  std::int64_t size() const { return capacity_ == kEndless ? peak_ : capacity_; }
  bool empty() const { return taken_.empty(); }

 private:
  Buffer memory_;
  std::int64_t capacity_, peak_ = 0;
  std::map<std::int64_t, std::int64_t> taken_;  // offset, bytes
};

}  // namespace ft
