// Loops over the vector type's functions, compiled once per target.
#include "tests/engine/cpu/vec_probe.h"

#include "engine/cpu/kernels/words.h"

namespace ft::cpu::FT_TARGET {
namespace {

// Full vectors, then a masked tail.
template <class Y, class X, class F>
void map(Y* y, const X* x, i64 n, F f) {
  i64 i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, f(load(x + i)));
  if (i < n) store(y + i, f(load(x + i, n - i)), n - i);
}
template <class Y, class X>
void copy(Y* y, const X* x, i64 n) {
  map(y, x, n, [](Vec v) { return v; });
}
void map_exp2(float* y, const float* x, i64 n) {
  map(y, x, n, [](Vec v) { return exp2(v); });
}
float sum_of(const float* x, i64 n) { return sum(load(x, n)); }
float largest_of(const float* x, i64 n) { return largest(select(first_lanes(n), load(x, n), splat(-1e30f))); }
void transpose_of(Word* y, i64 ldy, const void* x, DType t, i64 ldx, i64 rows, i64 cols) {
  if (t == DType::f32) return transpose(y, ldy, static_cast<const float*>(x), ldx, rows, cols);
  transpose(y, ldy, static_cast<const bf16*>(x), ldx, rows, cols);
}
void interleave_of(Word* y, i64 ldy, const void* x, DType t, i64 ldx, i64 rows, i64 cols) {
  if (t == DType::f32) return interleave(y, ldy, static_cast<const float*>(x), ldx, rows, cols);
  interleave(y, ldy, static_cast<const bf16*>(x), ldx, rows, cols);
}

}  // namespace

const VecProbe& vec_probe() {
  static constexpr VecProbe probe{kLanes,           kPack<bf16>,       map_exp2,         copy<bf16, float>,
                                  copy<f16, float>, copy<float, bf16>, copy<float, f16>, sum_of,
                                  largest_of,       transpose_of,      interleave_of};
  return probe;
}

}  // namespace ft::cpu::FT_TARGET
