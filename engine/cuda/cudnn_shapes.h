// The graphs of attention over one sequence: softmax(scale q k^T) v, and its gradient in the variant that
// adds in one order and needs a (rows, rows) workspace.
#pragma once
#include <compare>

#include "engine/cuda/cudnn_graph.h"

namespace ft::cuda {

struct CudnnShape {
  std::int64_t rows = 0, query_heads = 0, key_heads = 0, width = 0;
  std::int64_t lse_stride = 0;                  // elements from head to head
  std::int64_t q = 0, k = 0, v = 0, y = 0;      // elements from row to row
  std::int64_t dy = 0, dq = 0, dk = 0, dv = 0;  // the gradient only
  bool causal = true, gradient = false;
  auto operator<=>(const CudnnShape&) const = default;
};

// The numbers under which a run gives memory. `sums`: (H, rows) f32, for the gradient's own use.
namespace cudnn_id {
inline constexpr std::int64_t kQ = 1, kK = 2, kV = 3, kY = 4, kLse = 5, kDy = 6, kDq = 7, kDk = 8, kDv = 9,
                              kSums = 10, kScale = 11, kMinusInfinity = 12, kOne = 13;
}

CudnnPlan cudnn_plan(const Cudnn&, const CudnnShape&, const CudnnDescriptor& device);  // CudnnRefusal

}  // namespace ft::cuda
