// Compressed messages between ranks: signs, and blocks in 4 or 8 bits.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kBits = 8, kBlock = op::kWireBlock;
static_assert(kBlock % kLanes == 0);

// Calls f(byte, its first sign, number of its signs) for each byte of the bits of n signs.
template <class F>
void each_byte(i64 n, Team& team, const F& f) {
  const i64 bytes = (n + kBits - 1) / kBits;
  each_span(1, bytes, true, team, [&](i64, i64 first, i64 count) {
    for (i64 b = first; b < first + count; ++b) f(b, b * kBits, least(kBits, n - b * kBits));
  });
}

// The scale of a block; NaN if an element is not finite, which makes all decoded values NaN.
float scale_of(const float* x, float most) {
  float largest = 0, poison = 0;
  for (i64 i = 0; i < kBlock; ++i) {
    const float a = __builtin_fabsf(x[i]);
    largest = a > largest ? a : largest;
    poison += x[i] * 0.0f;
  }
  return largest / most + poison;
}

int code_of(float x, float by, float most) {
  float q = x / by;
  q = q > -most ? q : -most;
  q = q < most ? q : most;
  return static_cast<int>(__builtin_rintf(q));
}

void encode(std::uint8_t* codes, const float* x, float scale, int bits) {
  const float by = scale > 0 ? scale : 1;
  if (bits == 8)
    for (i64 i = 0; i < kBlock; ++i)
      codes[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(code_of(x[i], by, 127)));
  else
    for (i64 i = 0; i < kBlock; i += 2)
      codes[i / 2] =
          static_cast<std::uint8_t>((code_of(x[i], by, 7) + 8) | (code_of(x[i + 1], by, 7) + 8) << 4);
}

void decode(float* codes, const std::uint8_t* from, int bits) {
  if (bits == 8)
    for (i64 i = 0; i < kBlock; ++i) codes[i] = static_cast<std::int8_t>(from[i]);
  else
    for (i64 i = 0; i < kBlock; ++i) codes[i] = static_cast<float>((from[i / 2] >> (i % 2 * 4) & 15) - 8);
}

// Calls f(row, block of the row) for all blocks.
template <class F>
void each_block(const View& x, Team& team, const F& f) {
  constexpr i64 kAtOnce = 16;
  const i64 in_row = x.cols / kBlock, blocks = x.rows * in_row;
  each_item((blocks + kAtOnce - 1) / kAtOnce, x.rows * x.cols, team, [&](i64 item) {
    for (i64 b = item * kAtOnce; b < least(blocks, (item + 1) * kAtOnce); ++b) f(b / in_row, b % in_row);
  });
}

}  // namespace

void compute(const op::EncodeSigns& op, Team& team) {
  auto* bits = data_of<std::uint8_t>(op.bits);
  auto* x = data_of<float>(op.x);
  const auto scale = static_cast<float>(__builtin_sqrt(*data_of<const double>(op.squares) / op.count));
  *data_of<float>(op.scale) = scale;
  const View all = view_of(op.x);
  each_byte(all.rows * all.cols, team, [&](i64 byte, i64 first, i64 count) {
    int set = 0;
    for (i64 j = 0; j < count; ++j) {
      const bool negative = x[first + j] < 0;
      set |= (negative ? 0 : 1) << j;
      x[first + j] -= negative ? -scale : scale;
    }
    bits[byte] = static_cast<std::uint8_t>(set);
  });
}

void compute(const op::AddSigns& op, Team& team) {
  auto* y = data_of<float>(op.y);
  const View all = view_of(op.y), bits = view_of(op.bits), scales = view_of(op.scales);
  each_byte(all.rows * all.cols, team, [&](i64 byte, i64 first, i64 count) {
    float sum[kBits] = {};
    for (i64 r = 0; r < bits.rows; ++r) {
      const float scale = *at<const float>(scales, r);
      const int set = at<const std::uint8_t>(bits, r)[byte];
      for (i64 j = 0; j < kBits; ++j) sum[j] += set >> j & 1 ? scale : -scale;
    }
    for (i64 j = 0; j < count; ++j) y[first + j] = __builtin_fmaf(op.factor, sum[j], y[first + j]);
  });
}

void compute(const op::EncodeBlocks& op, Team& team) {
  const View x = view_of(op.x), codes = view_of(op.codes), scales = view_of(op.scales);
  const float most = op.bits == 8 ? 127 : 7;
  with_float(x.type, [&](auto t) {
    each_block(x, team, [&](i64 row, i64 block) {
      float wide[kBlock];
      const auto* from = at<const decltype(t)>(x, row) + block * kBlock;
      for (i64 i = 0; i < kBlock; i += kLanes) store(wide + i, load(from + i));
      const float scale = at<float>(scales, row)[block] = scale_of(wide, most);
      encode(at<std::uint8_t>(codes, row) + block * kBlock * op.bits / 8, wide, scale, op.bits);
    });
  });
}

void compute(const op::DecodeBlocks& op, Team& team) {
  const View y = view_of(op.y), codes = view_of(op.codes), scales = view_of(op.scales);
  with_float(y.type, [&](auto t) {
    each_block(y, team, [&](i64 row, i64 block) {
      float code[kBlock];
      decode(code, at<const std::uint8_t>(codes, row) + block * kBlock * op.bits / 8, op.bits);
      const Vec scale = splat(at<const float>(scales, row)[block]);
      auto* to = at<decltype(t)>(y, row) + block * kBlock;
      for (i64 i = 0; i < kBlock; i += kLanes) {
        const Vec c = load(code + i);
        store(to + i, op.adds ? fma(c, scale, load(to + i)) : c * scale);
      }
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
