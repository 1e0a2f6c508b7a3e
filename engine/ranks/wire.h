// How sums of f32 over ranks travel: as they are, or in 16 bits (DeepSpeed's communication_data_type). Each
// rank's part is multiplied by `scale`, rounded to the type, sent, and added up in rank order in f32; the sum
// is rounded to the type once more and divided by the scale. So all ranks and all stages get the same bits.
// NCCL rounds after every rank's part, in an order of its own.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/core/tensor.h"

namespace ft {

struct Wire {
  DType dtype = DType::f32;
  float scale = 1;  // of 16 bits only: f32 has room for any

  bool narrows(DType sum) const { return sum == DType::f32 && dtype != DType::f32; }
};

// Elements that sums in 16 bits between GPUs pass through at once, in the GPU's memory; `bucket`: as
// reduce_bucket_size. 0: they travel as they are.
constexpr std::int64_t narrow_elements(DType wire, std::int64_t bucket, int ranks) {
  constexpr std::int64_t kMost = 1 << 24;
  return wire == DType::f32 ? 0 : std::max<std::int64_t>(std::min(bucket, kMost) / ranks, 1) * ranks;
}

// y = x as it travels, and back.
void to_wire(const Wire&, std::byte* y, const float* x, std::int64_t n);
void from_wire(const Wire&, float* y, const std::byte* x, std::int64_t n);

// y = the sum of what arrived, by rank, with `own` in the place of the rank whose part is null. y may be own.
void add_wires(const Wire&, float* y, const float* own, std::span<const std::byte* const> arrived,
               std::int64_t n);

}  // namespace ft
