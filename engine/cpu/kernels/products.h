// Sums of matrix products: the table that every target fills. See op::Products for the contract.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/cpu/team.h"
#include "engine/quant/four_bit.h"

namespace ft {
struct FourBitMatrix;
}

namespace ft::cpu {

// A matrix in 4 bits, see engine/quant/four_bit.h.
struct FourBitOperand {
  FourBitValues values;  // by code
  const std::uint8_t* codes;
  std::int64_t block;
  const float* absmax;  // of every block; null: absmax_codes, which are powers of two without nested_absmax
  const std::uint8_t* absmax_codes;
  const float *nested_map, *nested_absmax;
  float nested_offset;
};
FourBitOperand operand_of(const FourBitMatrix&);
// A matrix in 8 bits, see engine/quant/int8.h.
struct Int8Operand {
  const std::int8_t* codes;
  std::int64_t block;
  const float* scales;  // of every block
};

// op(a) (rows, k) op(b) (k, cols). Leading dimensions are in elements, of the stored matrices.
struct ProductTerm {
  const void* a;
  std::int64_t lda;
  bool a_transposed;  // stored as (k, rows)
  const void* b;
  std::int64_t ldb;
  bool b_transposed;  // stored as (cols, k)
  std::int64_t k;
  // Replaces b if it is coded: at most one of the two; its rows are contiguous.
  const FourBitOperand* four_bit = nullptr;
  const Int8Operand* int8 = nullptr;
};

// y (rows, cols) = alpha * sum of the terms + c.
struct ProductCall {
  void* y;
  std::int64_t ldy;
  DType y_type;
  std::int64_t rows, cols;
  const ProductTerm* terms;
  std::int64_t count;
  DType operands;  // f32, bf16 or f16
  float alpha;
  const void* c;     // null: none
  std::int64_t ldc;  // 0: one row, added to all
  DType c_type;
  Team* team;
  int threads;                // that should work: the team's number, or 1
  std::byte* workspace;       // workspace_bytes(threads), aligned to 64
  bool y_transposed = false;  // y and c are stored as (cols, rows)
  bool any_order = false;  // sums of a few rows with coded matrices may have other bits than larger products
};

struct ProductKernels {
  // Returns a number that does not depend on the sizes of the product.
  std::int64_t (*workspace_bytes)(int threads);
  void (*run)(const ProductCall&);
  // Repeats the register tile on operands in the first-level cache, on the calling thread; returns the number
  // of floating point operations done. It measures the best speed that a product could reach.
  double (*tile_out_of_cache)(DType operands, std::int64_t repeats);
};

}  // namespace ft::cpu
