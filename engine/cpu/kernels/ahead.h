// Software prefetching: the tiles of a product move to new rows too irregularly for the hardware prefetcher.
#pragma once
#include <cstddef>

#include "engine/cpu/kernels/words.h"

namespace ft::cpu::FT_TARGET {
namespace {

// List of memory that will be needed soon. It is fetched into the second-level cache a few lines at a time
// while tiles are computed. Fetching it all at once, when it is needed, costs a fifth of the speed.
class Ahead {
 public:
  void add(const void* at, i64 stride_bytes, i64 rows, i64 row_bytes) {
    if (rows <= 0 || row_bytes <= 0 || count_ == kMax) return;
    list_[count_++] = {static_cast<const std::byte*>(at), stride_bytes, rows, row_bytes};
    lines_ += rows * ceil_div(row_bytes, kLine);
  }
  // Divides the fetching into `steps` equal steps.
  void divide(i64 steps) { step_ = steps > 0 ? ceil_div(lines_, steps) : 0; }
  void step() {
    for (i64 n = step_; n > 0 && now_ < count_; --n) {
      const Rectangle& r = list_[now_];
      __builtin_prefetch(r.at + row_ * r.stride + offset_, 0, 2);
      offset_ += kLine;
      if (offset_ < r.bytes) continue;
      offset_ = 0;
      if (++row_ < r.rows) continue;
      row_ = 0;
      ++now_;
    }
  }

 private:
  static constexpr i64 kLine = 64, kMax = 18;
  struct Rectangle {
    const std::byte* at;
    i64 stride, rows, bytes;
  };
  Rectangle list_[kMax];
  i64 count_ = 0, lines_ = 0, step_ = 0, now_ = 0, row_ = 0, offset_ = 0;
};

}  // namespace
}  // namespace ft::cpu::FT_TARGET
