// Shared parts of the attention kernels: masks, and tiles in shared memory.
#pragma once
#include "engine/cuda/kernels/attention.h"
#include "engine/cuda/kernels/device.cuh"
#include "engine/ops/math.h"

namespace ft::cuda {

constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();

__device__ inline i64 larger(i64 a, i64 b) { return a > b ? a : b; }
__device__ inline i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

struct Range {
  i64 from, to;
};

// The mask of Ops. Rows are numbered within the batch and belong to one sequence [begin, end).
struct Sight {
  bool causal;
  i64 window;
  __device__ bool sees(i64 query, i64 key) const {
    return !(causal && key > query) && !(window > 0 && key <= query - window);
  }
  // Range of keys that any of the queries [from, to) sees, and range of queries that see any of the keys
  // [from, to).
  __device__ Range keys_of(const Tile& t, i64 from, i64 to) const {
    return {window > 0 ? larger(t.from, from - window + 1) : t.from, causal ? to : t.to};
  }
  __device__ Range queries_of(const Tile& t, i64 from, i64 to) const {
    return {causal ? from : t.from, window > 0 ? smaller(t.to, to - 1 + window) : t.to};
  }
};

// True if the blocks of a query and a key, which are numbered within their sequence, see each other.
__device__ inline bool kept_block(const Blocks& b, i64 head, i64 query, i64 key) {
  if (!b.bits) return true;
  const i64 column = key >> b.shift;
  const std::uint32_t* row = b.bits + head * b.head_words + (query >> b.shift) * b.words;
  return (row[column / 32] >> (column % 32) & 1) != 0;
}

// The bias of a pair at distance key - query, in units of scores before scaling; 0 without a bias.
template <class T>
__device__ float bias_at(const View& bias, i64 head, i64 distance, float scale) {
  if (!bias.data) return 0;
  const i64 reach = bias.rows / 2, row = reach + larger(-reach, smaller(reach, distance));
  return to_float(static_cast<const T*>(bias.data)[row * bias.stride + head]) / scale;
}

// A capped score, in units of scores before scaling, and the cap's derivative there.
struct Capped {
  float score, slope;
};
__device__ inline Capped capped(float score, float scale, float cap) {
  if (cap == 0) return {score, 1};
  const float part = math::tanh_of(score * (scale / cap));
  return {part * (cap / scale), math::soft_cap_slope(part)};
}

}  // namespace ft::cuda
