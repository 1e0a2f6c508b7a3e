// Memory taken in order and given back in reverse order. The arena of saved activations *is* the tape:
// forward takes, backward gives back. Its size is fixed before the first step, by running that step on
// NullOps.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "engine/core/tensor.h"

namespace ft {

// Memory of any device. The deleter is the allocator's.
using Buffer = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

class Arena {
 public:
  static constexpr std::int64_t kAlign = 256;  // bytes; a multiple of every vector and cache line

  static constexpr std::int64_t kPadding = 64;  // bytes, a CPU's cache line

  // padding: bytes that take_padded adds to a row where needed, a multiple of 16.
  Arena(Buffer memory, std::int64_t capacity, std::int64_t padding = kPadding)
      : memory_(std::move(memory)), capacity_(capacity), padding_(padding) {}

  // Takes a dense tensor, not cleared.
  Tensor take(Shape shape, DType dtype) { return take_rows(shape, dtype, 0); }
  // Takes a (rows, cols) tensor whose rows do not lie a multiple of 4096 bytes apart, unless the padding is
  // 0. Such a distance maps a column to a few cache sets of a CPU and halves the speed of a matrix product.
  Tensor take_padded(std::int64_t rows, std::int64_t cols, DType dtype) {
    const bool pad = cols * size_of(dtype) % 4096 == 0;
    return take_rows({rows, cols}, dtype, pad ? cols + padding_ / size_of(dtype) : cols);
  }

  std::int64_t mark() const { return used_; }
  void rewind(std::int64_t mark) {
    require(mark <= used_, "arena rewound forwards");
    used_ = mark;
  }
  std::int64_t peak() const { return peak_; }  // bytes, the most in use at once so far
  std::int64_t capacity() const { return capacity_; }
  // Returns the most bytes in use at once since the last call.
  std::int64_t recent_peak() { return std::exchange(recent_, used_); }

 private:
  Tensor take_rows(const Shape& shape, DType dtype, std::int64_t stride) {
    Tensor t(memory_.get() + used_, dtype, shape, stride);
    const std::int64_t bytes = t.rows() * t.stride * size_of(dtype);
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
    require(used_ <= capacity_, "the arena is smaller than the plan said");
    peak_ = std::max(peak_, used_);
    recent_ = std::max(recent_, used_);
    return t;
  }

  Buffer memory_;
  std::int64_t capacity_, padding_, used_ = 0, peak_ = 0, recent_ = 0;
};

// Gives back, when it ends, everything taken from the arena since it began.
class Scope {
 public:
  explicit Scope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~Scope() { arena_.rewind(mark_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Arena& arena_;
  std::int64_t mark_;
};

}  // namespace ft
