// Compressed messages between ranks: signs, and blocks in 4 or 8 bits.
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/kernels/step_each.cuh"

namespace ft::cuda {
namespace {

constexpr int kThreads = 256, kWarp = 32;
static_assert(op::kWireBlock == kWarp * kPack);  // one warp per block

__device__ inline i64 thread_number() { return static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x; }

struct SignsOut {
  std::uint8_t* bits;
  float *scale, *x;
  const double* squares;
  double count;
  i64 n;
};

// Encodes signs; each thread makes bytes.
__global__ void __launch_bounds__(kThreads) encode_signs(SignsOut c) {
  const float scale = static_cast<float>(::sqrt(*c.squares / c.count));
  if (thread_number() == 0) *c.scale = scale;
  for (i64 byte = thread_number(); byte * 8 < c.n; byte += static_cast<i64>(gridDim.x) * kThreads) {
    int set = 0;
    for (i64 i = byte * 8; i < byte * 8 + 8 && i < c.n; ++i) {
      const bool negative = c.x[i] < 0;
      set |= (negative ? 0 : 1) << (i % 8);
      c.x[i] -= negative ? -scale : scale;
    }
    c.bits[byte] = static_cast<std::uint8_t>(set);
  }
}

struct SignsIn {
  float* y;
  Rows<const std::uint8_t> bits;
  Rows<const float> scales;
  i64 rows, n;
  float factor;
};

__global__ void __launch_bounds__(kThreads) add_signs(SignsIn c) {
  for (i64 byte = thread_number(); byte * 8 < c.n; byte += static_cast<i64>(gridDim.x) * kThreads) {
    float sum[8] = {};
    for (i64 r = 0; r < c.rows; ++r) {
      const float scale = *c.scales.at(r);
      const int set = *c.bits.at(r, byte);
      for (int j = 0; j < 8; ++j) sum[j] += set >> j & 1 ? scale : -scale;
    }
    for (i64 i = byte * 8; i < byte * 8 + 8 && i < c.n; ++i) c.y[i] = math::fma(c.factor, sum[i % 8], c.y[i]);
  }
}

template <class T, class Codes, class Scales>
struct Blocks {
  Rows<T> x;
  Rows<Codes> codes;
  Rows<Scales> scales;
  i64 in_row, blocks;
  int bits;
  bool wide, adds;
};

// Calls f(row, block of the row, the block's first element for this thread) for all blocks.
template <class F>
__device__ inline void each_block(i64 in_row, i64 blocks, F f) {
  const i64 step = static_cast<i64>(gridDim.x) * kThreads / kWarp;
  for (i64 b = thread_number() / kWarp; b < blocks; b += step)
    f(b / in_row, b % in_row, b % in_row * op::kWireBlock + threadIdx.x % kWarp * kPack);
}

__device__ inline int code_of(float x, float by, float most) {
  float q = x / by;
  q = q > -most ? q : -most;
  q = q < most ? q : most;
  return static_cast<int>(rintf(q));
}

template <class T>
__global__ void __launch_bounds__(kThreads) encode_blocks(Blocks<const T, std::uint8_t, float> c) {
  const float most = c.bits == 8 ? 127 : 7;
  each_block(c.in_row, c.blocks, [&](i64 row, i64 block, i64 first) {
    float v[kPack], largest = 0, poison = 0;
    load(v, c.x.at(row, first), {kPack, c.wide});
    for (const float e : v) {
      largest = fmaxf(largest, fabsf(e));
      poison += e * 0.0f;
    }
    const float scale = warp_largest(largest) / most + warp_sum(poison), by = scale > 0 ? scale : 1;
    if (threadIdx.x % kWarp == 0) *c.scales.at(row, block) = scale;
    std::uint8_t* to = c.codes.at(row, first * c.bits / 8);
    if (c.bits == 8)
      for (int j = 0; j < kPack; ++j)
        to[j] = static_cast<std::uint8_t>(static_cast<std::int8_t>(code_of(v[j], by, most)));
    else
      for (int j = 0; j < kPack; j += 2)
        to[j / 2] =
            static_cast<std::uint8_t>((code_of(v[j], by, most) + 8) | (code_of(v[j + 1], by, most) + 8) << 4);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) decode_blocks(Blocks<T, const std::uint8_t, const float> c) {
  each_block(c.in_row, c.blocks, [&](i64 row, i64 block, i64 first) {
    const float scale = *c.scales.at(row, block);
    const std::uint8_t* from = c.codes.at(row, first * c.bits / 8);
    const Pack pack{kPack, c.wide};
    float y[kPack] = {};
    if (c.adds) load(y, c.x.at(row, first), pack);
    for (int j = 0; j < kPack; ++j) {
      const float code = c.bits == 8 ? static_cast<float>(static_cast<std::int8_t>(from[j]))
                                     : static_cast<float>((from[j / 2] >> (j % 2 * 4) & 15) - 8);
      y[j] = c.adds ? math::fma(code, scale, y[j]) : code * scale;
    }
    store(c.x.at(row, first), y, pack);
  });
}

Launch bytes_of(const Queue& q, i64 n) {
  return {q.stream, dim3(at_most(ceil_div(ceil_div(n, 8), kThreads), 4096)), kThreads};
}

Launch blocks_of(const Queue& q, i64 blocks) {
  return {q.stream, dim3(at_most(ceil_div(blocks * kWarp, kThreads), 4096)), kThreads};
}

}  // namespace

void compute(const op::EncodeSigns& op, const Queue& queue) {
  const i64 n = op.x.numel();
  launch("encode_signs", bytes_of(queue, n > 0 ? n : 1), encode_signs,
         SignsOut{data_of<std::uint8_t>(op.bits), data_of<float>(op.scale), data_of<float>(op.x),
                  data_of<const double>(op.squares), op.count, n});
}

void compute(const op::AddSigns& op, const Queue& queue) {
  const i64 n = op.y.numel();
  const View bits = view_of(op.bits), scales = view_of(op.scales);
  if (n == 0) return;
  launch("add_signs", bytes_of(queue, n), add_signs,
         SignsIn{data_of<float>(op.y), Rows<const std::uint8_t>(bits), Rows<const float>(scales), bits.rows,
                 n, op.factor});
}

void compute(const op::EncodeBlocks& op, const Queue& queue) {
  const View x = view_of(op.x), codes = view_of(op.codes), scales = view_of(op.scales);
  const i64 in_row = x.cols / op::kWireBlock, blocks = x.rows * in_row;
  if (blocks == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    launch(
        "encode_blocks", blocks_of(queue, blocks), encode_blocks<T>,
        Blocks<const T, std::uint8_t, float>{Rows<const T>(x), Rows<std::uint8_t>(codes), Rows<float>(scales),
                                             in_row, blocks, op.bits, wide(x), false});
  });
}

void compute(const op::DecodeBlocks& op, const Queue& queue) {
  const View y = view_of(op.y), codes = view_of(op.codes), scales = view_of(op.scales);
  const i64 in_row = y.cols / op::kWireBlock, blocks = y.rows * in_row;
  if (blocks == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    launch("decode_blocks", blocks_of(queue, blocks), decode_blocks<T>,
           Blocks<T, const std::uint8_t, const float>{Rows<T>(y), Rows<const std::uint8_t>(codes),
                                                      Rows<const float>(scales), in_row, blocks, op.bits,
                                                      wide(y), op.adds});
  });
}

}  // namespace ft::cuda
