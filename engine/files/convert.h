// Conversion between float formats, and search for NaN and Inf, with CPU kernels.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"

namespace ft {

// True for f32, bf16 and f16, the types of weights, which convert into each other.
constexpr bool is_weight_type(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

// to[i] = from[i] for n elements, rounded to nearest, ties to even. The ranges must not overlap.
void convert(void* to, DType to_type, const void* from, DType from_type, std::int64_t n);

// Returns the index of the first NaN or Inf of n elements, or -1.
std::int64_t find_nonfinite(const void* data, DType type, std::int64_t n);

}  // namespace ft
