// The form in which f32 sums over ranks are sent: f32 or 16 bits (DeepSpeed's communication_data_type). Each
// rank's part is multiplied by `scale`, rounded to the type, sent, and added up in rank order in f32. The sum
// is rounded to the type once more and divided by the scale. So all ranks and all stages get the same bits.
// NCCL rounds after adding each rank's part, in an order of its choice.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/core/tensor.h"

namespace ft {

struct Wire {
  DType dtype = DType::f32;
  float scale = 1;  // for 16 bits only; f32 needs no scaling

  bool narrows(DType sum) const { return sum == DType::f32 && dtype != DType::f32; }
};

// Elements, in a GPU's memory, of the buffer for sums in 16 bits between GPUs. 0: sums are sent in f32.
// `bucket`: reduce_bucket_size.
constexpr std::int64_t narrow_elements(DType wire, std::int64_t bucket, int ranks) {
  constexpr std::int64_t kMost = 1 << 24;
  return wire == DType::f32 ? 0 : std::max<std::int64_t>(std::min(bucket, kMost) / ranks, 1) * ranks;
}

// Convert f32 to the sent type, and back.
void to_wire(const Wire&, std::byte* y, const float* x, std::int64_t n);
void from_wire(const Wire&, float* y, const std::byte* x, std::int64_t n);

// y = the sum of the received parts, by rank. `own` is the part of the rank whose pointer is null. y may be
// own.
void add_wires(const Wire&, float* y, const float* own, std::span<const std::byte* const> arrived,
               std::int64_t n);

}  // namespace ft
