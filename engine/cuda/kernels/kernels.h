// Everything that the GPU computes except dense products: each function queues its kernels and returns.
// engine/ops describes each operation. The host has checked it, except for contents of device memory: an
// index out of range is skipped, and sets *wrong to a Wrong. The order of sums depends only on the shapes;
// there are no atomic operations.
#pragma once
#include "engine/cuda/kernels/queue.h"
#include "engine/ops/all.h"
#include "engine/quant/four_bit.h"

namespace ft::cuda {

// ---- operations
void compute(const op::Fill&, const Queue&);
void compute(const op::Add&, const Queue&);
void compute(const op::Cast&, const Queue&);
void compute(const op::Multiply&, const Queue&);
void compute(const op::SoftCap&, const Queue&);
void compute(const op::Dropout&, const Queue&);
void compute(const op::Noise&, const Queue&);
void compute(const op::Gated&, const Queue&);
void compute(const op::GatedGrad&, const Queue&);
void compute(const op::GatedPairs&, const Queue&);
void compute(const op::GatedPairsGrad&, const Queue&);
void compute(const op::ColumnSums&, const Queue&);
void compute(const op::RmsNorm&, const Queue&);
void compute(const op::RmsNormGrad&, const Queue&);
void compute(const op::LayerNorm&, const Queue&);
void compute(const op::LayerNormGrad&, const Queue&);
void compute(const op::Rope&, const Queue&);
void compute(const op::MergeAttention&, const Queue&);
void compute(const op::AttentionSinks&, const Queue&);
void compute(const op::AttentionSinksGrad&, const Queue&);
void compute(const op::AttentionRanges&, const Queue&);
void compute(const op::Embedding&, const Queue&);
void compute(const op::EmbeddingGrad&, const Queue&);
void compute(const op::GatherRows&, const Queue&);
void compute(const op::ScatterRows&, const Queue&);
void compute(const op::GatherColumns&, const Queue&);
void compute(const op::FakeQuantize&, const Queue&);
void compute(const op::Magnitudes&, const Queue&);
void compute(const op::ScaleColumns&, const Queue&);
void compute(const op::ColumnDots&, const Queue&);
void compute(const op::LogitSums&, const Queue&);
void compute(const op::GatherSum&, const Queue&);
void compute(const op::RepeatRows&, const Queue&);
void compute(const op::RepeatRowsGrad&, const Queue&);
void compute(const op::FoldColumns&, const Queue&);
void compute(const op::FoldColumnsGrad&, const Queue&);
void compute(const op::ScatterElements&, const Queue&);
void compute(const op::ScatterElementsGrad&, const Queue&);
void compute(const op::BlockProducts&, const Queue&);
void compute(const op::BlockProductsGrad&, const Queue&);
void compute(const op::SkewMatrices&, const Queue&);
void compute(const op::SkewMatricesGrad&, const Queue&);
void compute(const op::Transpose&, const Queue&);
void compute(const op::Route&, const Queue&);
void compute(const op::RouteGrad&, const Queue&);
void compute(const op::GroupRows&, const Queue&);
void compute(const op::RouterBalance&, const Queue&);
void compute(const op::ScaleRows&, const Queue&);
void compute(const op::ScaleRowsGrad&, const Queue&);
void compute(const op::CausalConv&, const Queue&);
void compute(const op::CausalConvGrad&, const Queue&);
void compute(const op::DeltaGates&, const Queue&);
void compute(const op::DeltaGatesGrad&, const Queue&);
void compute(const op::DeltaRule&, const Queue&);
void compute(const op::DeltaRuleGrad&, const Queue&);
void compute(const op::CrossEntropy&, const Queue&);
void compute(const op::Divergence&, const Queue&);
void compute(const op::LogitStatistics&, const Queue&);
void compute(const op::Sum&, const Queue&);
void compute(const op::SumSquares&, const Queue&);
void compute(const op::AdamW&, const Queue&);
void compute(const op::Lion&, const Queue&);
void compute(const op::AdEMAMix&, const Queue&);
void compute(const op::Sgd&, const Queue&);
void compute(const op::Adagrad&, const Queue&);
void compute(const op::RmsProp&, const Queue&);
void compute(const op::FirstMoment&, const Queue&);
void compute(const op::PlainAdam&, const Queue&);
void compute(const op::Average&, const Queue&);
void compute(const op::EncodeSigns&, const Queue&);
void compute(const op::AddSigns&, const Queue&);
void compute(const op::EncodeBlocks&, const Queue&);
void compute(const op::DecodeBlocks&, const Queue&);
void compute(const op::FactoredMeans&, const Queue&);
void compute(const op::FactoredUpdate&, const Queue&);
void compute(const op::RootUpdate&, const Queue&);
void compute(const op::MuonMomentum&, const Queue&);
void compute(const op::Scale&, const Queue&);
void compute(const op::Descend&, const Queue&);

// ---- parts of operations
void fill(cudaStream_t, const View& y, float value);
void cast(cudaStream_t, const View& y, const View& x);
View every_row(const View& row, std::int64_t rows);  // a view in which every row is `row`
void add(cudaStream_t, const View& y, const View& x, const op::Drop& = {});  // like op::Add
void broadcast_row(cudaStream_t, const View& y, const View& row);            // every row of y = row
// Conversions for sums that are sent in 16 bits (engine/ranks/wire.h): to_wire: y = x scale, rounded;
// from_wire: y = x / scale. y and x f32.
void to_wire(cudaStream_t, const View& y, const View& x, float scale);
void from_wire(cudaStream_t, const View& y, const View& x, float scale);

// A number per row and head of sequences: packed (heads, rows) f32 for all rows of the batch; padded (batch,
// heads, bound) f32.
struct PaddedRows {
  float* packed;
  std::int64_t rows;
  float* padded;
  std::int64_t batch, heads, bound;
  const std::int32_t *first, *count;  // (batch) each sequence's first row in packed, and its number of rows
};
void pad_rows(cudaStream_t, const PaddedRows&);    // zeros beyond a sequence's end
void unpad_rows(cudaStream_t, const PaddedRows&);  // rows of other sequences do not change
// y (H, rows, keys) of the bias's type, at a multiple of 16 bytes: Scores::bias of every pair.
void bias_of_pairs(cudaStream_t, void* y, const View& bias, std::int64_t rows, std::int64_t keys);

// ---- four_bit.cu
struct FourBitSource {
  FourBitValues values;
  std::int64_t block;
  const std::uint8_t* codes;
  const float* absmax;               // null if the scales are codes
  const std::uint8_t* absmax_codes;  // powers of two; if nested, codes for the three below
  const float *map, *nested_absmax, *nested_offset;
  std::int64_t cols;                  // of the complete matrix
  std::int64_t first_row, first_col;  // of the part to decode
};
void dequantize(cudaStream_t, const View& y, const FourBitSource&);

// ---- fp8.cu
struct Fp8Source {
  const std::uint8_t* codes;
  const float* scales;
  std::int64_t scale_cols;            // of the complete matrix
  int row_bits, col_bits;             // tile_bits() of the scheme
  std::int64_t cols;                  // of the complete matrix
  std::int64_t first_row, first_col;  // of the part to decode
};
void dequantize(cudaStream_t, const View& y, const Fp8Source&);

// ---- rescale.cu
// y = x * w element by element, or with the transpose of w. w may be y; x is f32 or of their type.
void multiply_elements(cudaStream_t, const View& y, const View& x, const View& w, bool turned);

}  // namespace ft::cuda
