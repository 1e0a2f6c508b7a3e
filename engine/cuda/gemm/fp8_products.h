// Products of rows in FP8 with a matrix in FP8 (Term::fp8_rows) on Hopper: rows, and a dense matrix, are
// quantized, and cuBLASLt multiplies codes, with a scale for each row of both operands.
#pragma once
#include "engine/cuda/gemm/gemm.h"
#include "engine/cuda/gpu.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

// Throws UserError (hardware) unless the GPU has such products: compute capability 9.0.
void require_fp8_products(const Gpu&);

// y = alpha * the term + c. room: `bytes` of the GPU's memory, at least Fp8Room(term).bytes. Throws UserError
// (hardware) if the GPU or cuBLASLt has no such product, for example of sizes that are not multiples of 16.
void multiply_fp8(const Gpu&, Gemm&, const Tensor& y, const Term&, float alpha, const Tensor& c,
                  std::byte* room, std::int64_t bytes);

}  // namespace ft::cuda
