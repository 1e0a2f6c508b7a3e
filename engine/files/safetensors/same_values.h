// Compares stored tensors without loading them completely.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/core/tensor.h"

namespace ft {

// Returns true if two tensors of n elements have the same values. a(to, first) reads elements of the first
// tensor, b of the second.
bool same_values(std::int64_t n, const auto& a, const auto& b) {
  constexpr std::int64_t kAtOnce = 1 << 20;
  std::vector<float> x(static_cast<std::size_t>(std::min(kAtOnce, n))), y(x.size());
  for (std::int64_t at = 0; at < n; at += kAtOnce) {
    const std::int64_t some = std::min(kAtOnce, n - at);
    a(Tensor(reinterpret_cast<std::byte*>(x.data()), DType::f32, {some}), at);
    b(Tensor(reinterpret_cast<std::byte*>(y.data()), DType::f32, {some}), at);
    if (!std::equal(x.begin(), x.begin() + some, y.begin())) return false;
  }
  return true;
}

}  // namespace ft
