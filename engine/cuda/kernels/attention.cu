// Attention on tiles of 16 x 16 with one thread for each score: simple, and correct for every width up to
// 512. Thread (i, j) of a block computes the score of the tile's query i and key j, and then sums columns j,
// j + 16, ... of the result's row i.
#include <type_traits>

#include "engine/core/random.h"
#include "engine/cuda/kernels/attention.cuh"

namespace ft::cuda {
namespace {

constexpr int kTile = 16, kThreads = kTile * kTile;

// The two forms of the kernels: heads of up to 256 columns lie in shared memory as f32; wider heads have the
// tensors' type there, so that their tiles fit too.
template <class T, int kMost>
struct Form {
  using Element = std::conditional_t<(kMost > 256), T, float>;
  static constexpr int kOwned = kMost / kTile;  // most columns of a thread
  struct Matrix {
    Element at[kTile][kMost + 1];  // padded to avoid bank conflicts
  };
  struct Scores {
    float at[kTile][kTile + 1];
  };
  struct ForwardShared {
    Matrix q, k, v;
    Scores p;
  };
  struct DqShared {
    Matrix q, dy, k, v;
    Scores ds;
  };
  struct DkvShared {
    Matrix k, v, q, dy;
    Scores p, ds;  // (keys, queries)
  };
};

// Loads rows [first, last) of a head into a tile, with zeros after them.
template <class T>
__device__ void fetch(auto& m, Rows<T> x, i64 head, int width, i64 first, i64 last) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile * width; e += kThreads) {
    const int row = e / width, column = e % width;
    from_float(m.at[row][column],
               first + row < last ? to_float(*x.at(first + row, head * width + column)) : 0.0f);
  }
}

template <class T, int kOwned>
__device__ void put(Rows<T> y, i64 head, int width, i64 row, int j, const float (&owned)[kOwned]) {
  for (int n = 0; n < kOwned; ++n)
    if (j + n * kTile < width) from_float(*y.at(row, head * width + j + n * kTile), owned[n]);
}

template <class E>
__device__ float dot(const E* a, const E* b, int width) {
  float sum = 0;
  for (int d = 0; d < width; ++d) sum += to_float(a[d]) * to_float(b[d]);
  return sum;
}

// True if queries [query, query + 16), a tile of their sequence, see any of the keys [key, key + 16) below
// `end`. All are numbered within the sequence. The tile lies in one block; the keys may lie in two.
__device__ inline bool sees_block(const Attention& c, i64 head, i64 query, i64 key, i64 end) {
  return kept_block(c.blocks, head, query, key) ||
         kept_block(c.blocks, head, query, smaller(key + kTile, end) - 1);
}

// owned += sum over t of weights[t] m[t].
template <int kOwned>
__device__ void add(float (&owned)[kOwned], const float (&weights)[kTile + 1], const auto& m, int j,
                    int width) {
  for (int t = 0; t < kTile; ++t)
#pragma unroll
    for (int n = 0; n < kOwned; ++n) {
      if (n * kTile >= width) break;  // the same for all threads
      if (j + n * kTile < width) owned[n] += weights[t] * to_float(m.at[t][j + n * kTile]);
    }
}

// Reduces over the 16 threads of a row.
__device__ inline float row_largest(float v) {
  for (int with = kTile / 2; with > 0; with /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, with));
  return v;
}
__device__ inline float row_sum(float v) {
  for (int with = kTile / 2; with > 0; with /= 2) v += __shfl_xor_sync(~0u, v, with);
  return v;
}

// Dropout's factor for a probability; `key` is counted from the first key of its sequence.
__device__ inline float kept(const Attention& c, i64 head, i64 query, i64 key) {
  if (c.dropout == 0) return 1;
  const auto row = static_cast<std::uint64_t>(query * c.all_heads + c.first_head + head);
  const auto n = static_cast<std::uint64_t>(key);
  const DropRule rule(c.dropout);
  return rule.keeps(Random{c.random}.eight_at(row << 32 | n / 8), n % 8) ? rule.growth() : 0;
}

template <class T>
struct Tensors {
  Rows<T> q, k, v, y, dy, dq, dk, dv;
};

template <class T, int kMost>
__global__ void __launch_bounds__(kThreads) forward(Attention c, Tensors<T> t) {
  using F = Form<T, kMost>;
  auto& s = shared_memory<typename F::ForwardShared>();
  const Tile tile = c.tiles[blockIdx.x];
  const Sight sight{c.causal, c.window};
  const int i = static_cast<int>(threadIdx.x) / kTile, j = static_cast<int>(threadIdx.x) % kTile;
  const i64 head = c.first_key_head * c.group + static_cast<i64>(blockIdx.y), key_head = head / c.group;
  const i64 query = tile.first + i, last = smaller(tile.end, tile.first + kTile);
  fetch(s.q, t.q, head, c.width, tile.first, last);
  float sums[F::kOwned] = {}, top = kLowest, total = 0;  // top: before scaling
  const Range keys = sight.keys_of(tile, tile.first, last);
  const float power = c.scale * kLog2e;
  for (i64 from = keys.from; from < keys.to; from += kTile) {
    if (!sees_block(c, head, tile.first - tile.begin, from - tile.from, keys.to - tile.from)) continue;
    __syncthreads();
    fetch(s.k, t.k, key_head, c.width, from, keys.to);
    fetch(s.v, t.v, key_head, c.width, from, keys.to);
    __syncthreads();
    const bool seen = from + j < keys.to && sight.sees(query, from + j) &&
                      kept_block(c.blocks, head, tile.first - tile.begin, from + j - tile.from);
    const float bias = seen ? bias_at<T>(c.bias, head, from + j - query, c.scale) : 0;
    const float score =
        seen ? capped(dot(s.q.at[i], s.k.at[j], c.width) + bias, c.scale, c.cap).score : kLowest;
    const float now = fmaxf(top, row_largest(score));  // ignores a NaN, which the sums do not
    const float p = seen ? exp2f((score - now) * power) : 0;
    const float shrink = top == kLowest ? 0 : exp2f((top - now) * power);
    top = now;
    total = total * shrink + row_sum(p);
    s.p.at[i][j] = seen ? p * kept(c, head, query, from + j - tile.from) : 0;
    __syncthreads();
    for (float& e : sums) e *= shrink;
    add(sums, s.p.at[i], s.v, j, c.width);
  }
  if (query >= last) return;
  for (float& e : sums) e /= total;
  put(t.y, head, c.width, query, j, sums);
  if (j == 0) c.lse[head * c.q.rows + query] = top * c.scale + logf(total);
}

// delta (heads of the call, rows) = sum of dy y over a head; one warp computes each.
template <class T>
__global__ void __launch_bounds__(kThreads) deltas(Attention c, Tensors<T> t) {
  const i64 row = static_cast<i64>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (row >= c.q.rows) return;
  const i64 head = c.first_key_head * c.group + static_cast<i64>(blockIdx.y);
  float sum = 0;
  for (int d = static_cast<int>(threadIdx.x % 32); d < c.width; d += 32)
    sum += to_float(*t.dy.at(row, head * c.width + d)) * to_float(*t.y.at(row, head * c.width + d));
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) c.delta[static_cast<i64>(blockIdx.y) * c.q.rows + row] = sum;
}

// With p = exp(scale s - lse): ds = p (dp - delta) scale, dp = dy v^T.
template <class T, int kMost>
__global__ void __launch_bounds__(kThreads) gradient_of_queries(Attention c, Tensors<T> t) {
  using F = Form<T, kMost>;
  auto& s = shared_memory<typename F::DqShared>();
  const Tile tile = c.tiles[blockIdx.x];
  const Sight sight{c.causal, c.window};
  const int i = static_cast<int>(threadIdx.x) / kTile, j = static_cast<int>(threadIdx.x) % kTile;
  const i64 head = c.first_key_head * c.group + static_cast<i64>(blockIdx.y), key_head = head / c.group;
  const i64 query = tile.first + i, last = smaller(tile.end, tile.first + kTile);
  fetch(s.q, t.q, head, c.width, tile.first, last);
  fetch(s.dy, t.dy, head, c.width, tile.first, last);
  const float lse = query < last ? c.lse[head * c.q.rows + query] : 0;
  const float delta = query < last ? c.delta[static_cast<i64>(blockIdx.y) * c.q.rows + query] : 0;
  float sums[F::kOwned] = {};
  const Range keys = sight.keys_of(tile, tile.first, last);
  for (i64 from = keys.from; from < keys.to; from += kTile) {
    if (!sees_block(c, head, tile.first - tile.begin, from - tile.from, keys.to - tile.from)) continue;
    __syncthreads();
    fetch(s.k, t.k, key_head, c.width, from, keys.to);
    fetch(s.v, t.v, key_head, c.width, from, keys.to);
    __syncthreads();
    float ds = 0;
    if (query < last && from + j < keys.to && sight.sees(query, from + j) &&
        kept_block(c.blocks, head, tile.first - tile.begin, from + j - tile.from)) {
      const i64 key = from + j;
      const float bias = bias_at<T>(c.bias, head, key - query, c.scale);
      const Capped score = capped(dot(s.q.at[i], s.k.at[j], c.width) + bias, c.scale, c.cap);
      const float p = exp2f((score.score * c.scale - lse) * kLog2e);
      const float dp = dot(s.dy.at[i], s.v.at[j], c.width) * kept(c, head, query, key - tile.from);
      ds = p * (dp - delta) * c.scale * score.slope;
    }
    s.ds.at[i][j] = ds;
    __syncthreads();
    add(sums, s.ds.at[i], s.k, j, c.width);
  }
  if (query < last) put(t.dq, head, c.width, query, j, sums);
}

// Computes dk and dv of a tile of keys. It loops over all query heads that share the key head.
template <class T, int kMost>
__global__ void __launch_bounds__(kThreads) gradient_of_keys(Attention c, Tensors<T> t) {
  using F = Form<T, kMost>;
  auto& s = shared_memory<typename F::DkvShared>();
  const Tile tile = c.key_tiles[blockIdx.x];
  const Sight sight{c.causal, c.window};
  const int i = static_cast<int>(threadIdx.x) / kTile, j = static_cast<int>(threadIdx.x) % kTile;
  const i64 key_head = c.first_key_head + static_cast<i64>(blockIdx.y);
  const i64 key = tile.first + i, last = smaller(tile.end, tile.first + kTile);
  fetch(s.k, t.k, key_head, c.width, tile.first, last);
  fetch(s.v, t.v, key_head, c.width, tile.first, last);
  float dk[F::kOwned] = {}, dv[F::kOwned] = {};
  const Range queries = sight.queries_of(tile, tile.first, last);
  for (int shared_by = 0; shared_by < c.group; ++shared_by) {
    const i64 head = key_head * c.group + shared_by;
    const float* lse = c.lse + head * c.q.rows;
    const float* delta = c.delta + (static_cast<i64>(blockIdx.y) * c.group + shared_by) * c.q.rows;
    for (i64 from = queries.from; from < queries.to; from += kTile) {
      if (!kept_block(c.blocks, head, from - tile.from, tile.first - tile.begin)) continue;
      __syncthreads();
      fetch(s.q, t.q, head, c.width, from, queries.to);
      fetch(s.dy, t.dy, head, c.width, from, queries.to);
      __syncthreads();
      float p = 0, ds = 0;
      const i64 query = from + j;
      if (key < last && query < queries.to && sight.sees(query, key)) {
        const float bias = bias_at<T>(c.bias, head, key - query, c.scale);
        const float keep = kept(c, head, query, key - tile.begin);
        const Capped score = capped(dot(s.q.at[j], s.k.at[i], c.width) + bias, c.scale, c.cap);
        p = exp2f((score.score * c.scale - lse[query]) * kLog2e);
        ds = p * (dot(s.dy.at[j], s.v.at[i], c.width) * keep - delta[query]) * c.scale * score.slope;
        p *= keep;
      }
      s.p.at[i][j] = p;
      s.ds.at[i][j] = ds;
      __syncthreads();
      add(dv, s.p.at[i], s.dy, j, c.width);
      add(dk, s.ds.at[i], s.q, j, c.width);
    }
  }
  if (key >= last) return;
  put(t.dk, key_head, c.width, key, j, dk);
  put(t.dv, key_head, c.width, key, j, dv);
}

// ds of one pair, before scaling, computed from memory.
template <class T>
__device__ float pair_gradient(const Attention& c, const Tensors<T>& t, i64 head, i64 query, i64 key,
                               i64 first_key) {
  const i64 key_head = head / c.group;
  float score = bias_at<T>(c.bias, head, key - query, c.scale), dp = 0;
  for (int d = 0; d < c.width; ++d) {
    score += to_float(*t.q.at(query, head * c.width + d)) * to_float(*t.k.at(key, key_head * c.width + d));
    dp += to_float(*t.dy.at(query, head * c.width + d)) * to_float(*t.v.at(key, key_head * c.width + d));
  }
  const float p = exp2f((score * c.scale - c.lse[head * c.q.rows + query]) * kLog2e);
  const i64 own = head - c.first_key_head * c.group;
  return p * (dp * kept(c, head, query, key - first_key) - c.delta[own * c.q.rows + query]);
}

// Sums ds over all pairs at a distance (the end distances include all beyond): one block for each distance
// and head.
template <class T>
__global__ void __launch_bounds__(kThreads) gradient_of_bias(Attention c, Tensors<T> t) {
  float* warps = shared_memory<float[kThreads / 32]>();
  const i64 reach = c.dbias.rows / 2, distance = static_cast<i64>(blockIdx.x) - reach;
  const i64 head = c.first_key_head * c.group + static_cast<i64>(blockIdx.y);
  const Sight sight{c.causal, c.window};
  const int i = static_cast<int>(threadIdx.x) / kTile, j = static_cast<int>(threadIdx.x) % kTile;
  float sum = 0;
  for (i64 n = 0; n < c.n_tiles; ++n) {
    const Tile tile = c.tiles[n];
    const i64 query = tile.first + i;
    if (query >= smaller(tile.end, tile.first + kTile)) continue;
    const i64 from = distance == -reach ? tile.begin : larger(tile.begin, query + distance);
    const i64 to = distance == reach ? tile.end : smaller(tile.end, query + distance + 1);
    for (i64 key = from + j; key < to; key += kTile)
      if (sight.sees(query, key) && kept_block(c.blocks, head, query - tile.begin, key - tile.begin))
        sum += pair_gradient(c, t, head, query, key, tile.begin);
  }
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) static_cast<float*>(c.dbias.data)[blockIdx.x * c.dbias.stride + head] += sum;
}

template <class T>
Tensors<T> tensors_of(const Attention& c) {
  return {Rows<T>(c.q),  Rows<T>(c.k),  Rows<T>(c.v),  Rows<T>(c.y),
          Rows<T>(c.dy), Rows<T>(c.dq), Rows<T>(c.dk), Rows<T>(c.dv)};
}

// Calls f with kMost of the form for heads of this width.
void with_most_columns(int width, const auto& f) {
  width > 256 ? f(std::integral_constant<int, kAttentionWidth>{}) : f(std::integral_constant<int, 256>{});
}

template <class T, int kMost>
void plain_grad(cudaStream_t stream, const Attention& c, const Tensors<T>& t) {
  using F = Form<T, kMost>;
  const auto tiles = static_cast<unsigned>(c.n_tiles), key_tiles = static_cast<unsigned>(c.n_key_tiles),
             key_heads = static_cast<unsigned>(c.key_heads),
             heads = key_heads * static_cast<unsigned>(c.group);
  if (tiles > 0)
    launch("attention_grad", {stream, dim3(tiles, heads), kThreads, sizeof(typename F::DqShared)},
           gradient_of_queries<T, kMost>, c, t);
  if (key_tiles > 0)
    launch("attention_grad", {stream, dim3(key_tiles, key_heads), kThreads, sizeof(typename F::DkvShared)},
           gradient_of_keys<T, kMost>, c, t);
  const dim3 sums(static_cast<unsigned>(c.dbias.rows), heads);
  if (c.dbias.data)
    launch("attention_grad", {stream, sums, kThreads, sizeof(float) * kThreads / 32}, gradient_of_bias<T>, c,
           t);
}

}  // namespace

bool attention_uses_wgmma(const Attention& c) {
  if (!c.hopper || !attention_uses_mma(c) || c.blocks.bits || c.cap > 0) return false;
  const bool bare = !c.bias.data && c.dropout == 0;
  return c.width <= (bare ? 128 : 64) && (!c.bias.data || c.group == 1) && c.width % kPack == 0 &&
         wide({c.q, c.k, c.v, c.y, c.dy, c.dq, c.dk, c.dv});
}

void attention(cudaStream_t stream, const Attention& c) {
  if (c.n_tiles == 0) return;
  if (attention_uses_wgmma(c)) return attention_wgmma(stream, c);
  if (attention_uses_mma(c)) return attention_mma(stream, c);
  with_float(c.q.type, [&](auto e) {
    using T = decltype(e);
    const dim3 grid(static_cast<unsigned>(c.n_tiles), static_cast<unsigned>(c.key_heads * c.group));
    with_most_columns(c.width, [&](auto most) {
      constexpr int kMost = decltype(most)::value;
      launch("attention", {stream, grid, kThreads, sizeof(typename Form<T, kMost>::ForwardShared)},
             forward<T, kMost>, c, tensors_of<T>(c));
    });
  });
}

void attention_grad(cudaStream_t stream, const Attention& c) {
  if (c.n_tiles == 0 && c.n_key_tiles == 0) return;
  with_float(c.q.type, [&](auto e) {
    using T = decltype(e);
    const Tensors<T> t = tensors_of<T>(c);
    const dim3 rows(static_cast<unsigned>(ceil_div(c.q.rows, kThreads / 32)),
                    static_cast<unsigned>(c.key_heads * c.group));
    if (rows.x > 0) launch("attention_grad", {stream, rows, kThreads}, deltas<T>, c, t);
    if (!attention_uses_mma(c))
      return with_most_columns(c.width,
                               [&](auto most) { plain_grad<T, decltype(most)::value>(stream, c, t); });
    attention_uses_wgmma(c) ? attention_wgmma_grad(stream, c) : attention_mma_grad(stream, c);
    if (c.dbias.data) attention_mma_bias_grad(stream, c);
  });
}

}  // namespace ft::cuda
