// Sums over rows, for the gradients of norms' weights and of biases: a block has 32 columns, so that there
// are blocks enough for a GPU, and 64 groups of its threads go down them side by side, four rows each on
// their way at a time; then the groups' sums are added in order.
#include "engine/cuda/kernels/device.cuh"

namespace ft::cuda {
namespace {

constexpr int kColumns = 32, kGroups = 64, kThreads = kColumns / kPack * kGroups;

struct Shared {
  float sums[kGroups][kColumns];
};

template <class T>
struct Plain {
  Rows<T> x;
  bool wide;
  __device__ void operator()(float (&v)[kPack], i64 row, i64 column, Pack pack) const {
    load(v, x.at(row, column), pack);
  }
};

template <class T>
struct Dw {  // dy x rstd
  Rows<T> dy, x;
  const float* rstd;
  bool wide;
  __device__ void operator()(float (&v)[kPack], i64 row, i64 column, Pack pack) const {
    float d[kPack];
    load(v, x.at(row, column), pack);
    load(d, dy.at(row, column), pack);
    for (int j = 0; j < kPack; ++j) v[j] = d[j] * v[j] * rstd[row];
  }
};

struct Down {
  i64 first, rows, column;
};
template <class Value>
__device__ inline void add_rows(float (&sum)[kPack], const Value& value, Down at, Pack pack) {
#pragma unroll 4
  for (i64 row = at.first; row < at.rows; row += kGroups) {
    float v[kPack];
    value(v, row, at.column, pack);
    for (int j = 0; j < kPack; ++j) sum[j] += v[j];
  }
}

template <class Value>
__global__ void __launch_bounds__(kThreads) sum_columns(float* y, i64 rows, i64 cols, Value value) {
  Shared& shared = shared_memory<Shared>();
  const int group = static_cast<int>(threadIdx.x) / (kColumns / kPack);
  const int place = static_cast<int>(threadIdx.x) % (kColumns / kPack) * kPack;
  const i64 first = static_cast<i64>(blockIdx.x) * kColumns, column = first + place;
  float sum[kPack] = {};
  if (column < cols) {
    const Pack pack = pack_at(column, cols, value.wide);
    if (pack.wide && pack.count == kPack)  // said again, so that loads follow each other without branches
      add_rows(sum, value, {group, rows, column}, {kPack, true});
    else
      add_rows(sum, value, {group, rows, column}, pack);
  }
  for (int j = 0; j < kPack; ++j) shared.sums[group][place + j] = sum[j];
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x);
  if (mine >= kColumns || first + mine >= cols) return;
  float total = 0;
  for (int g = 0; g < kGroups; ++g) total += shared.sums[g][mine];
  y[first + mine] += total;
}

template <class Value>
void run(cudaStream_t stream, float* y, const View& x, const Value& value) {
  if (x.rows == 0 || x.cols == 0) return;
  launch("column_sums",
         {stream, dim3(static_cast<unsigned>(ceil_div(x.cols, kColumns))), kThreads, sizeof(Shared)},
         sum_columns<Value>, y, x.rows, x.cols, value);
}

}  // namespace

void column_sums(cudaStream_t stream, float* y, const View& x) {
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    run(stream, y, x, Plain<T>{Rows<T>(x), wide(x)});
  });
}

void rms_norm_dw(cudaStream_t stream, const NormGrad& g) {
  with_float(g.x.type, [&](auto t) {
    using T = decltype(t);
    run(stream, g.dw, g.x, Dw<T>{Rows<T>(g.dy), Rows<T>(g.x), g.rstd, wide({g.dy, g.x})});
  });
}

}  // namespace ft::cuda
