// op::NarrowGrad in one read of dy (narrow_grad.cu).
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "engine/ops/view.h"

namespace ft::cuda {

// du (m, r) = alpha dy (m, n) b (n, r), and db (n, r) += dy^T u (m, r). r is at most kMost. n and r are
// multiples of eight, and the rows of dy, b and u begin at multiples of 16 bytes. db is f32 or of the
// operands' type.
struct NarrowGrads {
  static constexpr int kMost = 32;  // columns
  View du, db, dy, b, u;
  float alpha;
  float* partial;  // narrow_grad_floats() floats
};
std::int64_t narrow_grad_floats(std::int64_t m, std::int64_t n, std::int64_t r);
void narrow_grad(cudaStream_t, const NarrowGrads&);

}  // namespace ft::cuda
