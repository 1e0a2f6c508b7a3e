// Sums of matrix products: the table every target fills. See Ops::products.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"

namespace ft::cpu {

struct ProductKernels {
  // Repeats the register tile on operands in the first-level cache, on the calling thread; returns the
  // floating point operations done. What a product could reach at best.
  double (*tile_out_of_cache)(DType operands, std::int64_t repeats);
};

}  // namespace ft::cpu
