// The graphs of attention over the sequences of a batch: softmax(scale q k^T + bias) v, and its gradient in
// the variant that sums in one order and needs a (rows, keys) workspace for every head of every sequence.
#pragma once
#include <compare>

#include "engine/cuda/cudnn/cudnn_graph.h"

namespace ft::cuda {

struct CudnnShape {
  std::int64_t batch = 1;           // sequences
  std::int64_t rows = 0, keys = 0;  // of each sequence; when ragged, the bounds
  std::int64_t query_heads = 0, key_heads = 0, width = 0;
  std::int64_t q = 0, k = 0, v = 0, y = 0;      // elements from row to row
  std::int64_t dy = 0, dq = 0, dk = 0, dv = 0;  // the gradient only
  bool f16 = false;                             // false: bf16
  bool ragged = false;                          // sequences have separate lengths and places
  bool causal = true, window = false, bias = false, gradient = false;
  auto operator<=>(const CudnnShape&) const = default;
};

// The numbers under which a run gives memory.
namespace cudnn_id {
inline constexpr std::int64_t kQ = 1, kK = 2, kV = 3, kY = 4, kDy = 5, kDq = 6, kDk = 7, kDv = 8;
// Ragged sequences only: for each of the eight tensors above (batch + 1) i32, the number of elements before
// each sequence; (batch) i32, their rows and keys.
inline constexpr std::int64_t kOffset = 10, kRows = 20, kKeys = 21;
// (batch, H, rows) f32: natural logarithms of the denominators; sums of dy y, which the gradient uses
// internally.
inline constexpr std::int64_t kLse = 22, kSums = 23;
inline constexpr std::int64_t kBias = 24;  // (H, rows, keys) of q's type
// f32 numbers on the host.
inline constexpr std::int64_t kScale = 30, kMinusInfinity = 31, kOne = 32, kWindow = 33;
}  // namespace cudnn_id

CudnnPlan cudnn_plan(const Cudnn&, const CudnnShape&, const CudnnDescriptor& device);  // throws CudnnRefusal

}  // namespace ft::cuda
