// Everything that is computed on the GPU but dense products: each function queues its kernels and returns.
// See Ops for what each computes; arguments have been checked on the host, but for what lies in device
// memory: an index out of its range is skipped, and leaves a Wrong in *wrong. Sums are taken in an order that
// depends on the shapes only; there are no atomic operations.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/core/four_bit.h"
#include "engine/ops/math.h"

namespace ft::cuda {

// A Tensor without its functions, which kernels do not need.
struct View {
  void* data;  // null: not wanted
  DType type;
  std::int64_t rows, cols, stride;  // stride in elements
};

// Why an index of the data was skipped; the last one found stays.
enum class Wrong : std::int32_t { none, position, id, gathered_row, scattered_row, target, key };

// ---- elementwise.cu, gated.cu
void fill(cudaStream_t, const View& y, float value);
void add(cudaStream_t, const View& y, const View& x);
void cast(cudaStream_t, const View& y, const View& x);
void dropout(cudaStream_t, const View& y, const View& x, float p, std::uint64_t key);
void broadcast_row(cudaStream_t, const View& y, const View& row);  // every row of y = row
void gated(cudaStream_t, Activation f, const View& y, const View& gate, const View& up);
struct GatedGrad {
  View dgate, dup, dy, gate, up;
};
void gated_grad(cudaStream_t, Activation f, const GatedGrad&);

// ---- norm.cu, columns.cu
void rms_norm(cudaStream_t, const View& y, float* rstd, const View& x, const void* w, float eps);
struct NormGrad {
  View dx;    // += ; null: not wanted
  float* dw;  // += ; null: not wanted
  View dy, x;
  const void* w;
  const float* rstd;
};
void rms_norm_dx(cudaStream_t, const NormGrad&);
void rms_norm_dw(cudaStream_t, const NormGrad&);
void column_sums(cudaStream_t, float* y, const View& x);

// ---- rope.cu, rows.cu
struct Rope {
  View x;
  const float *cos, *sin;  // (positions, head_width / 2)
  std::int64_t positions;
  const std::int32_t* at;  // (rows)
  std::int64_t head_width;
  float sign;
};
void rope(cudaStream_t, const Rope&, std::int32_t* wrong);
// y[i] = x[index[i]] of n rows, or y[index[i]] = x[i].
struct RowCopy {
  View y, x;
  const std::int32_t* index;
  std::int64_t n;
};
void gather_rows(cudaStream_t, const RowCopy&, Wrong kind, std::int32_t* wrong);
void scatter_rows(cudaStream_t, const RowCopy&, std::int32_t* wrong);
void embedding_grad(cudaStream_t, const View& dtable, const std::int32_t* ids, const View& dy,
                    std::int32_t* wrong);

// ---- loss.cu
struct Loss {
  float* loss;
  View logits;
  const std::int32_t* targets;
  float scale, smoothing;
  bool gradient;
};
void cross_entropy(cudaStream_t, const Loss&, std::int32_t* wrong);

// ---- optimizer.cu; partial: kSumParts doubles of workspace
constexpr int kSumParts = 1024;
void sum(cudaStream_t, double* y, const float* x, std::int64_t n, double* partial);          // y +=
void sum_squares(cudaStream_t, double* y, const float* x, std::int64_t n, double* partial);  // y +=
struct AdamWArrays {
  float *master, *m, *v;
  const float* grad;
  std::int64_t n;
};
void adamw(cudaStream_t, const AdamWArrays&, const math::AdamWStep&);
struct Sgd {
  float* master;
  const float* grad;
  std::int64_t n;
  float lr, decay, grad_scale;
};
void sgd(cudaStream_t, const Sgd&);

// ---- padded.cu
// Sequences' numbers: packed (heads, rows) f32 of all rows that there are, padded (batch, heads, bound) f32.
struct PaddedRows {
  float* packed;
  std::int64_t rows;
  float* padded;
  std::int64_t batch, heads, bound;
  const std::int32_t *first, *count;  // (batch) each sequence's first row in packed, and its rows
};
void pad_rows(cudaStream_t, const PaddedRows&);    // 0 beyond a sequence's end
void unpad_rows(cudaStream_t, const PaddedRows&);  // no row of another sequence changes
// y (H, rows, keys) of the bias's type, at a multiple of 16 bytes: Scores::bias of every pair.
void bias_of_pairs(cudaStream_t, void* y, const View& bias, std::int64_t rows, std::int64_t keys);

// ---- four_bit.cu
struct FourBitSource {
  FourBitValues values;
  std::int64_t block;
  const std::uint8_t* codes;
  const float* absmax;               // null when nested
  const std::uint8_t* absmax_codes;  // when nested, these four
  const float *map, *nested_absmax, *nested_offset;
  std::int64_t cols;                  // of the whole matrix
  std::int64_t first_row, first_col;  // of the part that is wanted
};
void dequantize(cudaStream_t, const View& y, const FourBitSource&);

}  // namespace ft::cuda
