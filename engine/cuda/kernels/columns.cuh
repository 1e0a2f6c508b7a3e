// Sums over rows, for the gradients of norms' weights and of biases. A block has only 32 columns, so that
// there are enough blocks for a GPU. In it, 64 groups of threads process rows in parallel, four rows each at
// a time; then the groups' sums are added in order.
#pragma once
#include "engine/cuda/kernels/device.cuh"

namespace ft::cuda {

struct ColumnSums {
  static constexpr int kColumns = 32, kGroups = 64, kThreads = kColumns / kPack * kGroups;
  float sums[kGroups][kColumns];
};

struct Down {
  i64 first, rows, column;
};
template <class Value>
__device__ inline void add_rows(float (&sum)[kPack], const Value& value, Down at, Pack pack) {
#pragma unroll 4
  for (i64 row = at.first; row < at.rows; row += ColumnSums::kGroups) {
    float v[kPack];
    value(v, row, at.column, pack);
    for (int j = 0; j < kPack; ++j) sum[j] += v[j];
  }
}

template <class Value>
__global__ void __launch_bounds__(ColumnSums::kThreads)
    sum_columns(float* y, i64 rows, i64 cols, Value value) {
  ColumnSums& shared = shared_memory<ColumnSums>();
  const int group = static_cast<int>(threadIdx.x) / (ColumnSums::kColumns / kPack);
  const int place = static_cast<int>(threadIdx.x) % (ColumnSums::kColumns / kPack) * kPack;
  const i64 first = static_cast<i64>(blockIdx.x) * ColumnSums::kColumns, column = first + place;
  float sum[kPack] = {};
  if (column < cols) {
    const Pack pack = pack_at(column, cols, value.wide);
    // repeated as constants, so that loads follow each other without branches
    if (pack.wide && pack.count == kPack)
      add_rows(sum, value, {group, rows, column}, {kPack, true});
    else
      add_rows(sum, value, {group, rows, column}, pack);
  }
  for (int j = 0; j < kPack; ++j) shared.sums[group][place + j] = sum[j];
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x);
  if (mine >= ColumnSums::kColumns || first + mine >= cols) return;
  float total = 0;
  for (int g = 0; g < ColumnSums::kGroups; ++g) total += shared.sums[g][mine];
  y[first + mine] += total;
}

// y (cols of x) += the sums over x's rows of the packs of numbers v that value(v, row, column, pack)
// computes. value.wide: it may access 16 bytes at once.
template <class Value>
void add_column_sums(cudaStream_t stream, float* y, const View& x, const Value& value) {
  if (x.rows == 0 || x.cols == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(x.cols, ColumnSums::kColumns));
  launch("column_sums", {stream, dim3(blocks), ColumnSums::kThreads, sizeof(ColumnSums)}, sum_columns<Value>,
         y, x.rows, x.cols, value);
}

// The elements themselves as values.
template <class T>
struct Elements {
  Rows<T> x;
  bool wide;
  __device__ void operator()(float (&v)[kPack], i64 row, i64 column, Pack pack) const {
    load(v, x.at(row, column), pack);
  }
};

}  // namespace ft::cuda
