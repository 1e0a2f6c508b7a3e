// The table of one target; compiled once per target like the kernels themselves.
#include "engine/cpu/kernels/kernels.h"

namespace ft::cpu::FT_TARGET {

extern const ProductKernels product_kernels;

const Kernels& kernels() {
  static constexpr Kernels table{product_kernels};
  return table;
}

}  // namespace ft::cpu::FT_TARGET
