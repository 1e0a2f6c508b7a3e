// Attention in bf16 or f16 on tensor cores (Dao 2023): scores stay in registers and become the left operand
// of the product with the values.
#include "engine/cuda/kernels/attention_mma.cuh"

namespace ft::cuda {
namespace {

constexpr int kKeys = 64;  // of a step

template <class T, int kWidth>
struct Shared {
  MmaMatrix<T, kMmaRows, kWidth> q;
  MmaMatrix<T, kKeys, kWidth> k;
  MmaMatrix<T, kWidth, kKeys> v;  // transposed
};

// The running softmax of one of a lane's two rows.
struct Row {
  i64 query;
  float top = kLowest, total = 0;  // top: before scaling; total: of this lane's columns
};

// Scores become probabilities relative to the rows' new maxima, which the sums so far become too.
template <int kWidth>
__device__ void softmax(float (&s)[kKeys / 8][4], float (&sums)[kWidth / 8][4], Row (&rows)[2], float power) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Row& row = rows[half];
    float now = row.top;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) now = fmaxf(now, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    now = quad_largest(now);  // passes over a NaN; the sums do not
    const float shrink = row.top == kLowest ? 0 : exp2f((row.top - now) * power);
    row.top = now;
    row.total *= shrink;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j) {
        s[n][j] = s[n][j] == kLowest ? 0 : exp2f((s[n][j] - now) * power);
        row.total += s[n][j];
      }
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j) sums[n][j] *= shrink;
  }
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads) forward(Attention c, MmaTensors<T> t) {
  Shared<T, kWidth>& m = shared_memory<Shared<T, kWidth>>();
  const Tile tile = c.tiles[blockIdx.x];
  const Sight sight{c.causal, c.window};
  const Lane lane;
  const i64 head = c.first_key_head * c.group + static_cast<i64>(blockIdx.y), key_head = head / c.group;
  const i64 last = smaller(tile.end, tile.first + kMmaRows);
  const int first = static_cast<int>(threadIdx.x / 32) * 16;  // row of the warp in the tile
  const Head<T> q(t.q, head, c.width, t.wide), k(t.k, key_head, c.width, t.wide),
      v(t.v, key_head, c.width, t.wide);
  fetch(m.q, q, tile.first, last);
  Row rows[2];
  for (int half = 0; half < 2; ++half) rows[half].query = tile.first + first + lane.g + 8 * half;
  float sums[kWidth / 8][4] = {};
  const Range keys = sight.keys_of(tile, tile.first, last);
  for (i64 from = keys.from; from < keys.to; from += kKeys) {
    __syncthreads();
    fetch(m.k, k, from, keys.to);
    fetch_transposed<T, kKeys, kWidth>(m.v, v, from, keys.to);
    __syncthreads();
    float s[kKeys / 8][4] = {};
    multiply(s, m.q, first, m.k);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const i64 key = from + 8 * n + 2 * lane.t + j % 2;
        if (key >= keys.to || !sight.sees(rows[j / 2].query, key)) s[n][j] = kLowest;
      }
    softmax<kWidth>(s, sums, rows, c.scale * kLog2e);
    add_product(sums, s, m.v);
  }
  for (int half = 0; half < 2; ++half) {
    const float total = quad_sum(rows[half].total);
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
      for (int j = 2 * half; j < 2 * half + 2; ++j) sums[n][j] /= total;
    if (lane.t == 0 && rows[half].query < last)
      c.lse[head * c.q.rows + rows[half].query] = rows[half].top * c.scale + logf(total);
  }
  put<kWidth>(t.y, head, c.width, tile.first + first, last, sums);
}

template <class T, int kWidth>
void run(cudaStream_t stream, const Attention& c) {
  const dim3 grid(static_cast<unsigned>(c.n_tiles), static_cast<unsigned>(c.key_heads * c.group));
  launch("attention", {stream, grid, kMmaThreads, sizeof(Shared<T, kWidth>)}, forward<T, kWidth>, c,
         mma_tensors<T>(c));
}
template <class T>
void run(cudaStream_t stream, const Attention& c) {
  c.width <= 64 ? run<T, 64>(stream, c) : run<T, 128>(stream, c);
}

}  // namespace

void attention_mma(cudaStream_t stream, const Attention& c) {
  c.q.type == DType::f16 ? run<f16>(stream, c) : run<bf16>(stream, c);
}

}  // namespace ft::cuda
