// The graphs of attention over sequences of one batch: softmax(scale q k^T + bias) v, and its gradient in the
// variant that adds in one order and needs a (rows, keys) workspace for every head of every sequence.
#pragma once
#include <compare>

#include "engine/cuda/cudnn/cudnn_graph.h"

namespace ft::cuda {

struct CudnnShape {
  std::int64_t batch = 1;           // sequences
  std::int64_t rows = 0, keys = 0;  // of each; of the longest when ragged
  std::int64_t query_heads = 0, key_heads = 0, width = 0;
  std::int64_t q = 0, k = 0, v = 0, y = 0;      // elements from row to row
  std::int64_t dy = 0, dq = 0, dk = 0, dv = 0;  // the gradient only
  bool f16 = false;                             // else bf16
  bool ragged = false;                          // sequences have lengths and places of their own
  bool causal = true, window = false, bias = false, gradient = false;
  auto operator<=>(const CudnnShape&) const = default;
};

// The numbers under which a run gives memory.
namespace cudnn_id {
inline constexpr std::int64_t kQ = 1, kK = 2, kV = 3, kY = 4, kDy = 5, kDq = 6, kDk = 7, kDv = 8;
// With ragged sequences: for each of the eight above (batch + 1) i32, elements before each sequence's first;
// (batch) i32, their rows and keys.
inline constexpr std::int64_t kOffset = 10, kRows = 20, kKeys = 21;
// (batch, H, rows) f32: natural logarithms of the denominators; sums of dy y, for internal use by the
// gradient.
inline constexpr std::int64_t kLse = 22, kSums = 23;
inline constexpr std::int64_t kBias = 24;  // (H, rows, keys) of q's type
// f32 numbers of the host.
inline constexpr std::int64_t kScale = 30, kMinusInfinity = 31, kOne = 32, kWindow = 33;
}  // namespace cudnn_id

CudnnPlan cudnn_plan(const Cudnn&, const CudnnShape&, const CudnnDescriptor& device);  // CudnnRefusal

}  // namespace ft::cuda
