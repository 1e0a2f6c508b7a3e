// The functions on a vector of floats that ft::math requires.
#pragma once
#include "engine/cpu/kernels/vec.h"
#include "engine/ops/math.h"

namespace ft::cpu::FT_TARGET {
namespace {

inline Vec constant(Vec, double c) { return splat(static_cast<float>(c)); }
inline Vec larger_of(Vec a, Vec b) { return max(a, b); }
inline Vec where_positive(Vec x, Vec yes, Vec no) { return select(less(zero(), x), yes, no); }

}  // namespace
}  // namespace ft::cpu::FT_TARGET
