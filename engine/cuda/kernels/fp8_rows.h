// Operands of products in FP8 on Hopper (fp8_rows.cu); quant/fp8_rows.h has the formulas.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "engine/ops/view.h"

namespace ft::cuda {

// Rows of x (m, k) bf16, each column multiplied by its factor, become codes (m, k) and scales (m).
struct Fp8Rows {
  View x;
  const float* factors;  // (k); null: 1
  bool of_matrix;        // codes of x / scale, as a weight has them, not of x * (1 / scale); without factors
  std::uint8_t* codes;   // dense
  float* scales;
};
void quantize_rows(cudaStream_t, const Fp8Rows&);

// to (cols, rows) = the transpose of from (rows, cols), both dense bytes at multiples of 16. rows and cols
// are multiples of 16.
void transpose_bytes(cudaStream_t, std::uint8_t* to, const std::uint8_t* from, std::int64_t rows,
                     std::int64_t cols);

}  // namespace ft::cuda
