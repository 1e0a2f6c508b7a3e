// Right operands in 8 bits: engine/quant/int8.h.
#pragma once
#include "engine/cpu/kernels/codes.h"

namespace ft::cpu::FT_TARGET {
namespace {

inline float scale_of(const Int8Operand& q, i64 block) { return q.scales[block]; }

template <class T>
inline void decode(T* to, const Int8Operand& q, i64 at, i64 n) {
  while (n > 0) {
    const i64 block = at / q.block, here = smaller(n, (block + 1) * q.block - at);
    const float scale = scale_of(q, block);
    for (i64 i = 0; i < here; ++i) from_float(to[i], static_cast<float>(q.codes[at + i]) * scale);
    to += here;
    at += here;
    n -= here;
  }
}

// Values of a word of codes, before they are scaled.
template <>
struct Codes<Int8Operand> {
  static constexpr i64 kOfWord = 4;
  explicit Codes(const Int8Operand&) {}
  static const std::int8_t* at(const Int8Operand& q, i64 i) { return q.codes + i; }
  Vec operator()(WordVec w, int i) const { return signed_byte(w, i); }  // code i of every word
};

}  // namespace
}  // namespace ft::cpu::FT_TARGET
