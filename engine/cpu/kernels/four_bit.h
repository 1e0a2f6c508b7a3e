// Right operands in 4 bits: engine/quant/four_bit.h.
#pragma once
#include "engine/cpu/kernels/codes.h"

namespace ft::cpu::FT_TARGET {
namespace {

inline float scale_of(const FourBitOperand& q, i64 block) {
  if (q.absmax != nullptr) return q.absmax[block];
  if (q.nested_absmax == nullptr) return power_of_two(q.absmax_codes[block]);
  return nested_value(q.nested_map[q.absmax_codes[block]], q.nested_absmax[block / kNestedBlock],
                      q.nested_offset);
}

// Decodes elements [at, at + n) of one block.
template <class T>
inline void decode_in_block(T* to, const FourBitOperand& q, i64 at, i64 n, float absmax) {
  if (at % 2 != 0) {  // the low half of a byte
    from_float(*to++, q.values.of[four_bit_code(q.codes, at++)] * absmax);
    --n;
  }
  const Table scaled = table(q.values.of, absmax);
  const std::uint8_t* codes = q.codes + at / 2;
  i64 i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, look_up(scaled, codes + i / 2));
  if (i == n) return;
  std::uint8_t last[kLanes / 2] = {};
  __builtin_memcpy(last, codes + i / 2, static_cast<std::size_t>((n - i + 1) / 2));
  store(to + i, look_up(scaled, last), n - i);
}

template <class T>
inline void decode(T* to, const FourBitOperand& q, i64 at, i64 n) {
  while (n > 0) {
    const i64 block = at / q.block, here = smaller(n, (block + 1) * q.block - at);
    decode_in_block(to, q, at, here, scale_of(q, block));
    to += here;
    at += here;
    n -= here;
  }
}

// Values of a word of codes, before they are scaled.
template <>
struct Codes<FourBitOperand> {
  static constexpr i64 kOfWord = 8;
  explicit Codes(const FourBitOperand& q) : values(table(q.values.of, 1)) {}
  static const std::uint8_t* at(const FourBitOperand& q, i64 i) { return q.codes + i / 2; }
  // Values of code i of every word: a byte has two codes, the high half first.
  Vec operator()(WordVec w, int i) const {
    return look_up(values, shifted_right(w, i % 2 == 0 ? i * 4 + 4 : i * 4 - 4));
  }
  Table values;
};

}  // namespace
}  // namespace ft::cpu::FT_TARGET
