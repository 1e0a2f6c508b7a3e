// The gradient of attention in bf16 or f16 on tensor cores: with p = exp(scale s - lse) and ds = p (dp -
// delta) scale, dq = ds k in one pass over the queries, dk = ds^T q and dv = p^T dy in another over the keys.
#include "engine/cuda/kernels/attention_mma.cuh"

namespace ft::cuda {
namespace {

constexpr int kStep = 32;  // keys, or queries, of a step

template <class T, int kWidth>
struct DqShared {
  MmaMatrix<T, kMmaRows, kWidth> q, dy;
  MmaMatrix<T, kStep, kWidth> k, v;
  MmaMatrix<T, kWidth, kStep> k_transposed;
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads) gradient_of_queries(Attention c, MmaTensors<T> t) {
  DqShared<T, kWidth>& m = shared_memory<DqShared<T, kWidth>>();
  const Tile tile = c.tiles[blockIdx.x];
  const Sight sight{c.causal, c.window};
  const Lane lane;
  const i64 head = c.first_key_head * c.group + static_cast<i64>(blockIdx.y), key_head = head / c.group;
  const i64 last = smaller(tile.end, tile.first + kMmaRows);
  const int first = static_cast<int>(threadIdx.x / 32) * 16;
  const Head<T> k(t.k, key_head, c.width, t.wide), v(t.v, key_head, c.width, t.wide);
  fetch(m.q, Head<T>(t.q, head, c.width, t.wide), tile.first, last);
  fetch(m.dy, Head<T>(t.dy, head, c.width, t.wide), tile.first, last);
  float lse[2] = {}, delta[2] = {};
  i64 query[2];
  for (int half = 0; half < 2; ++half) {
    query[half] = tile.first + first + lane.g + 8 * half;
    if (query[half] >= last) continue;
    lse[half] = c.lse[head * c.q.rows + query[half]];
    delta[half] = c.delta[static_cast<i64>(blockIdx.y) * c.q.rows + query[half]];
  }
  float dq[kWidth / 8][4] = {};
  const Range keys = sight.keys_of(tile, tile.first, last);
  for (i64 from = keys.from; from < keys.to; from += kStep) {
    __syncthreads();
    fetch(m.k, k, from, keys.to);
    fetch(m.v, v, from, keys.to);
    fetch_transposed<T, kStep, kWidth>(m.k_transposed, k, from, keys.to);
    __syncthreads();
    float s[kStep / 8][4] = {}, dp[kStep / 8][4] = {};
    multiply(s, m.q, first, m.k);
    multiply(dp, m.dy, first, m.v);
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const i64 key = from + 8 * n + 2 * lane.t + j % 2;
        const int half = j / 2;
        const bool seen = query[half] < last && key < keys.to && sight.sees(query[half], key);
        const float p = seen ? exp2f((s[n][j] * c.scale - lse[half]) * kLog2e) : 0;
        s[n][j] = p * (dp[n][j] - delta[half]) * c.scale;
      }
    add_product(dq, s, m.k_transposed);
  }
  put<kWidth>(t.dq, head, c.width, tile.first + first, last, dq);
}

template <class T, int kWidth>
struct DkvShared {
  MmaMatrix<T, kMmaRows, kWidth> k, v;
  MmaMatrix<T, kStep, kWidth> q, dy;
  MmaMatrix<T, kWidth, kStep> q_transposed, dy_transposed;
  float lse[kStep], delta[kStep];
};

// Rows are keys here, columns queries.
template <class T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads) gradient_of_keys(Attention c, MmaTensors<T> t) {
  DkvShared<T, kWidth>& m = shared_memory<DkvShared<T, kWidth>>();
  const Tile tile = c.tiles[blockIdx.x];
  const Sight sight{c.causal, c.window};
  const Lane lane;
  const i64 key_head = c.first_key_head + static_cast<i64>(blockIdx.y);
  const i64 last = smaller(tile.end, tile.first + kMmaRows);
  const int first = static_cast<int>(threadIdx.x / 32) * 16;
  fetch(m.k, Head<T>(t.k, key_head, c.width, t.wide), tile.first, last);
  fetch(m.v, Head<T>(t.v, key_head, c.width, t.wide), tile.first, last);
  float dk[kWidth / 8][4] = {}, dv[kWidth / 8][4] = {};
  const Range queries = sight.queries_of(tile, tile.first, last);
  for (int shared_by = 0; shared_by < c.group; ++shared_by) {
    const i64 head = key_head * c.group + shared_by;
    const Head<T> q(t.q, head, c.width, t.wide), dy(t.dy, head, c.width, t.wide);
    const float* lse = c.lse + head * c.q.rows;
    const float* delta = c.delta + (static_cast<i64>(blockIdx.y) * c.group + shared_by) * c.q.rows;
    for (i64 from = queries.from; from < queries.to; from += kStep) {
      __syncthreads();
      fetch(m.q, q, from, queries.to);
      fetch(m.dy, dy, from, queries.to);
      fetch_transposed<T, kStep, kWidth>(m.q_transposed, q, from, queries.to);
      fetch_transposed<T, kStep, kWidth>(m.dy_transposed, dy, from, queries.to);
      if (threadIdx.x < kStep) {
        const i64 query = from + threadIdx.x;
        m.lse[threadIdx.x] = query < queries.to ? lse[query] : 0;
        m.delta[threadIdx.x] = query < queries.to ? delta[query] : 0;
      }
      __syncthreads();
      float p[kStep / 8][4] = {}, ds[kStep / 8][4] = {};
      multiply(p, m.k, first, m.q);
      multiply(ds, m.v, first, m.dy);
#pragma unroll
      for (int n = 0; n < kStep / 8; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = 8 * n + 2 * lane.t + j % 2;
          const i64 query = from + column, key = tile.first + first + lane.g + j / 2 * 8;
          const bool seen = key < last && query < queries.to && sight.sees(query, key);
          p[n][j] = seen ? exp2f((p[n][j] * c.scale - m.lse[column]) * kLog2e) : 0;
          ds[n][j] = p[n][j] * (ds[n][j] - m.delta[column]) * c.scale;
        }
      add_product(dv, p, m.dy_transposed);
      add_product(dk, ds, m.q_transposed);
    }
  }
  put<kWidth>(t.dk, key_head, c.width, tile.first + first, last, dk);
  put<kWidth>(t.dv, key_head, c.width, tile.first + first, last, dv);
}

template <class T, int kWidth>
void run(cudaStream_t stream, const Attention& c) {
  const auto tiles = static_cast<unsigned>(c.n_tiles), key_heads = static_cast<unsigned>(c.key_heads);
  const auto t = mma_tensors<T>(c);
  launch("attention_grad",
         {stream, dim3(tiles, key_heads * static_cast<unsigned>(c.group)), kMmaThreads,
          sizeof(DqShared<T, kWidth>)},
         gradient_of_queries<T, kWidth>, c, t);
  launch("attention_grad", {stream, dim3(tiles, key_heads), kMmaThreads, sizeof(DkvShared<T, kWidth>)},
         gradient_of_keys<T, kWidth>, c, t);
}
template <class T>
void run(cudaStream_t stream, const Attention& c) {
  c.width <= 64 ? run<T, 64>(stream, c) : run<T, 128>(stream, c);
}

}  // namespace

void attention_mma_grad(cudaStream_t stream, const Attention& c) {
  c.q.type == DType::f16 ? run<f16>(stream, c) : run<bf16>(stream, c);
}

}  // namespace ft::cuda
