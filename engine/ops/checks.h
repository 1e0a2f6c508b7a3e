// Parts of the operations' checks.
#pragma once
#include "engine/core/tensor.h"

namespace ft::op {

inline bool is_float(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }
inline bool is_float(const Tensor& t) { return is_float(t.dtype); }
inline bool same_size(const Tensor& a, const Tensor& b) {
  return a.rows() == b.rows() && a.cols() == b.cols();
}
inline bool alike(const Tensor& a, const Tensor& b) { return same_size(a, b) && a.dtype == b.dtype; }
// True for a dense vector of n elements, of any rank.
inline bool is_vector(const Tensor& t, std::int64_t n, DType type) {
  return t.dtype == type && t.numel() == n && t.dense();
}
inline bool is_vector_if_there(const Tensor& t, std::int64_t n, DType type) {
  return !t || is_vector(t, n, type);
}

// True if every element of an i32 vector in the host's memory is in [0, limit).
inline bool all_below(const Tensor& indices, std::int64_t limit) {
  const std::int32_t* p = indices.as<std::int32_t>();
  for (std::int64_t i = 0; i < indices.numel(); ++i)
    if (p[i] < 0 || p[i] >= limit) return false;
  return true;
}

}  // namespace ft::op
