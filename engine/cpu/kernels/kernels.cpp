// The table of kernels of one target; compiled once per target like the kernels themselves.
#include "engine/cpu/kernels/kernels.h"

namespace ft::cpu::FT_TARGET {

extern const ProductKernels product_kernels;
extern const AttentionForward attention_forward;
extern const AttentionBackward attention_backward;
extern const AttentionRanges attention_ranges;
extern const LeafKernels leaf_kernels;

const Kernels& kernels() {
  static constexpr Kernels table{product_kernels, attention_forward, attention_backward, attention_ranges,
                                 leaf_kernels};
  return table;
}

}  // namespace ft::cpu::FT_TARGET
