// Dropout of a pack of elements in registers: see op::Drop.
#pragma once
#include "engine/core/random.h"
#include "engine/cuda/kernels/each_pack.cuh"
#include "engine/ops/elementwise.h"

namespace ft::cuda {

// Replaces Drops if there is no dropout; costs nothing.
struct NoDrops {
  explicit NoDrops(const op::Drop&, i64) {}
  __device__ void zero(float (&)[kPack], i64, i64) const {}
  __device__ float growth() const { return 1; }
};

class Drops {
 public:
  // cols: number of the operand's columns.
  Drops(const op::Drop& d, i64 cols)
      : columns_(d.columns > 0 ? d.columns : cols),
        before_(d.first_row * columns_ + d.first_column),
        limit_(DropRule(d.p).limit),
        growth_(DropRule(d.p).growth()),
        random_(d.random) {}

  // Sets dropped elements to 0. The caller multiplies the others by the growth.
  __device__ void zero(float (&v)[kPack], i64 row, i64 column) const {
    const auto number = static_cast<std::uint64_t>(before_ + row * columns_ + column), group = number / kPack;
    const int skip = static_cast<int>(number % kPack);
    Words eight = words(group);
    if (skip > 0) eight = following(eight, words(group + 1), skip);
    for (int j = 0; j < kPack; ++j)
      if ((eight.of[j / 2] >> j % 2 * 16 & 0xffff) < limit_) v[j] = 0;
  }
  __device__ float growth() const { return growth_; }

 private:
  // Eight numbers of 16 bits.
  struct Words {
    std::uint32_t of[4];
  };
  __device__ Words words(std::uint64_t group) const {
    const Philox4 eight = random_.eight_at(group);
    return {{eight[0], eight[1], eight[2], eight[3]}};
  }
  // The eight numbers from number `skip` on of a followed by b. It shifts by 4, 2 and 1, because registers
  // cannot be indexed by a variable.
  __device__ static Words following(const Words& a, const Words& b, int skip) {
    std::uint32_t w[8] = {a.of[0], a.of[1], a.of[2], a.of[3], b.of[0], b.of[1], b.of[2], b.of[3]};
    if (skip & 4)
      for (int i = 0; i < 6; ++i) w[i] = w[i + 2];
    if (skip & 2)
      for (int i = 0; i < 5; ++i) w[i] = w[i + 1];
    if (skip & 1)
      for (int i = 0; i < 4; ++i) w[i] = w[i] >> 16 | w[i + 1] << 16;
    return {{w[0], w[1], w[2], w[3]}};
  }

  i64 columns_, before_;  // numbers per row; number of the first element
  std::uint32_t limit_;
  float growth_;
  Random random_;
};

// Calls f with Drops or NoDrops.
template <class F>
void with_drops(const op::Drop& drop, i64 cols, F f) {
  if (drop.p > 0)
    f(Drops(drop, cols));
  else
    f(NoDrops(drop, cols));
}

// Runs a body with dropout. Rows that are parts of longer rows are not joined into one long row.
template <class Body>
void run_each_pack(const char* what, cudaStream_t stream, const op::Drop& drop,
                   std::initializer_list<View> all, const Body& body) {
  const View& first = *all.begin();
  if (drop.columns == 0 || drop.columns == first.cols) return run_each_pack(what, stream, all, body);
  run_each_pack(what, stream, first.rows, first.cols, wide(all), body);
}

}  // namespace ft::cuda
