// Products with rows in FP8 (Term::fp8_rows) on the CPU: the reference of quant/fp8_rows.h. Dense matrices
// are quantized. Rows are quantized and decoded to f32, and multiplied with the matrix, decoded to f32 too.
// Other terms and c are added in f32, and the result is rounded once. It shows a recipe's numbers; it is not
// faster than products in bf16.
#pragma once
#include "engine/core/arena.h"
#include "engine/cpu/products.h"

namespace ft::cpu {

class Fp8RowProducts {
 public:
  Fp8RowProducts(Products& products, Team& team);

  // True if the op has a term with rows in FP8.
  static bool has_rows(const op::Products&);
  // Works on as many rows at a time as the reserved memory holds beside dense matrices' codes, at most
  // kFp8CpuRows. Results do not depend on that number.
  void run(const op::Products&);
  // Throws UserError (memory) if there is not enough memory.
  void reserve(std::int64_t bytes);
  std::int64_t workspace_bytes() const { return bytes_; }

 private:
  // Quantizes a dense matrix into the reserved memory, from byte `at` on.
  Fp8Matrix quantized(const Tensor& matrix, std::int64_t at) const;
  void quantize(const Tensor& values, const Tensor& x, const float* factors, std::int64_t step) const;

  Products& products_;
  Team& team_;
  Buffer memory_;
  std::int64_t bytes_ = 0;
};

}  // namespace ft::cpu
