// Attention of few queries to the keys of a cache: one block for each query and head. Its warps take the keys
// in turns, and their results are merged at the end.
#include <type_traits>

#include "engine/cuda/kernels/attention.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;

// kMost: the most columns of a head; a lane has columns lane, lane + 32, ...
template <int kMost>
struct Shared {
  float top[kWarps], total[kWarps];
  float sums[kWarps][kMost];
};

struct Call {
  i64 keys;                           // number of keys in the cache
  const std::int32_t *first, *count;  // (rows)
  int group, width;
  i64 window;  // 0: none
  float scale, cap;
  View bias;
  Blocks blocks;
  i64 layouts;      // number of a row's layouts
  Rows<float> lse;  // (heads, rows); no data: not wanted
  std::int32_t* wrong;
};

template <class T>
struct Tensors {
  Rows<T> y, q, k, v;
};

template <class T, int kOwned>
__device__ void read(float (&owned)[kOwned], const T* p, int width) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int n = 0; n < kOwned; ++n) owned[n] = lane + 32 * n < width ? to_float(p[lane + 32 * n]) : 0;
}

template <class T, int kMost>
__global__ void __launch_bounds__(kThreads) over_ranges(Call c, Tensors<T> t) {
  constexpr int kOwned = kMost / 32;
  auto& s = shared_memory<Shared<kMost>>();
  const i64 row = blockIdx.x, head = blockIdx.y;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const i64 first = c.first[row], count = c.count[row];
  const i64 seen = c.blocks.bits ? (c.blocks.words * 32) << c.blocks.shift : count;
  if (first < 0 || count < 1 || first + count > c.keys || count > seen) {
    if (threadIdx.x == 0) *c.wrong = static_cast<std::int32_t>(Wrong::key);
    return;
  }
  const i64 at = static_cast<i64>(head) * c.width, key_at = head / c.group * c.width, end = first + count;
  float q[kOwned], sums[kOwned] = {}, top = kLowest, total = 0;  // top: before scaling
  read(q, t.q.at(row, at), c.width);
  const float power = c.scale * kLog2e;
  const i64 begin = c.window > 0 ? larger(first, end - c.window) : first;
  Blocks blocks = c.blocks;  // of this row
  blocks.bits += row * c.layouts * c.blocks.words;
  for (i64 key = begin + warp; key < end; key += kWarps) {
    if (c.blocks.bits && !kept_block(blocks, head, 0, key - first)) continue;
    float k[kOwned], v[kOwned], score = 0;
    read(k, t.k.at(key, key_at), c.width);
    read(v, t.v.at(key, key_at), c.width);
    for (int n = 0; n < kOwned; ++n) score += q[n] * k[n];
    score = warp_sum(score) + bias_at<T>(c.bias, head, key - (end - 1), c.scale);
    score = capped(score, c.scale, c.cap).score;
    const float now = fmaxf(top, score), p = exp2f((score - now) * power);
    const float shrink = top == kLowest ? 0 : exp2f((top - now) * power);
    top = now;
    total = total * shrink + p;
    for (int n = 0; n < kOwned; ++n) sums[n] = sums[n] * shrink + p * v[n];
  }
  for (int n = 0; n < kOwned; ++n)
    if (lane + 32 * n < c.width) s.sums[warp][lane + 32 * n] = sums[n];
  if (lane == 0) {
    s.top[warp] = top;
    s.total[warp] = total;
  }
  __syncthreads();
  float highest = kLowest, all = 0;
  for (int w = 0; w < kWarps; ++w) highest = fmaxf(highest, s.top[w]);
  float share[kWarps];
  for (int w = 0; w < kWarps; ++w) {
    share[w] = s.top[w] == kLowest ? 0 : exp2f((s.top[w] - highest) * power);
    all += s.total[w] * share[w];
  }
  if (c.lse.data && threadIdx.x == 0) *c.lse.at(head, row) = highest * c.scale + logf(all);
  for (int d = static_cast<int>(threadIdx.x); d < c.width; d += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += s.sums[w][d] * share[w];
    from_float(*t.y.at(row, at + d), sum / all);
  }
}

}  // namespace

void compute(const op::AttentionRanges& op, const Queue& queue) {
  const View y = view_of(op.y), q = view_of(op.q), k = view_of(op.k), v = view_of(op.v);
  if (q.rows == 0) return;
  View blocks = view_of(op.ranges.blocks);
  if (blocks.data) blocks.rows /= q.rows;  // rows of the layout for one query row
  const Call call{k.rows,
                  data_of<const std::int32_t>(op.ranges.first),
                  data_of<const std::int32_t>(op.ranges.count),
                  static_cast<int>(op.heads.query / op.heads.key_value),
                  static_cast<int>(op.heads.width),
                  op.ranges.window,
                  op.scores.scale,
                  op.scores.cap,
                  view_of(op.scores.bias),
                  blocks_of(blocks, 1, op.ranges.block),
                  blocks.rows,
                  Rows<float>(view_of(op.lse)),
                  queue.wrong};
  with_float(q.type, [&](auto e) {
    using T = decltype(e);
    const dim3 grid(at_most(q.rows, kMostGridX), static_cast<unsigned>(op.heads.query));
    const auto run = [&](auto most) {
      constexpr int kMost = decltype(most)::value;
      launch("attention_ranges", {queue.stream, grid, kThreads, sizeof(Shared<kMost>)}, over_ranges<T, kMost>,
             call, Tensors<T>{Rows<T>(y), Rows<T>(q), Rows<T>(k), Rows<T>(v)});
    };
    if (call.width > 256)
      run(std::integral_constant<int, kAttentionWidth>{});
    else
      run(std::integral_constant<int, 256>{});
  });
}

}  // namespace ft::cuda
