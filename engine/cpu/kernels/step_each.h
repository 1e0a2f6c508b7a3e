// Elementwise steps of optimizers: dense f32.
#pragma once
#include "engine/cpu/kernels/loops.h"
#include "engine/ops/steps.h"

namespace ft::cpu::FT_TARGET {
namespace {

inline i64 elements_of(const Tensor& dense) {
  const View v = view_of(dense);
  return v.rows * v.cols;
}

// The place of a master's rounded values; nowhere: value is empty.
class RoundedTo {
 public:
  explicit RoundedTo(const Tensor& value) : data_(value.data), narrow_(value.dtype == DType::bf16) {}
  void put(auto part, i64 i, Vec master) const {
    if (!data_) return;
    if (narrow_)
      part.store(reinterpret_cast<bf16*>(data_) + i, master);
    else
      part.store(reinterpret_cast<f16*>(data_) + i, master);
  }

 private:
  std::byte* data_;
  bool narrow_;  // bf16; else f16
};

// Calls f(x, gradient) on vectors of the elements of `all`, which it changes, and of `grad`. The first of
// `all` is the master.
template <std::size_t N, class F>
void step_each(const Tensor (&all)[N], const Tensor& value, const Tensor& grad, Team& team, const F& f) {
  const RoundedTo rounded(value);
  float* at[N];
  for (std::size_t k = 0; k < N; ++k) at[k] = data_of<float>(all[k]);
  const auto* g = data_of<const float>(grad);
  each_span(1, elements_of(grad), true, team, [&](i64, i64 first, i64 count) {
    each_vector(count, [&](auto part, i64 j) {
      const i64 i = first + j;
      Vec x[N];
      for (std::size_t k = 0; k < N; ++k) x[k] = part.load(at[k] + i);
      f(x, part.load(g + i));
      for (std::size_t k = 0; k < N; ++k) part.store(at[k] + i, x[k]);
      rounded.put(part, i, x[0]);
    });
  });
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
