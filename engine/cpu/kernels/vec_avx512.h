// Vec with AVX-512 (F, BW, DQ, VL). Only vec.h includes this.
#pragma once
#include <immintrin.h>

#include "engine/cpu/kernels/bf16_dot.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr int kLanes = 16;
struct Vec {
  __m512 v;
};
using Mask = __mmask16;

// The first n lanes; n may exceed kLanes or be negative.
inline Mask first_lanes(std::int64_t n) {
  return n >= kLanes ? Mask(0xffff) : n <= 0 ? Mask(0) : Mask((1u << n) - 1);
}

inline Vec zero() { return {_mm512_setzero_ps()}; }
inline Vec splat(float x) { return {_mm512_set1_ps(x)}; }
inline Vec lane_numbers() {  // 0, 1, 2, ...
  return {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}

inline Vec widen_bf16(__m256i x) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
}
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Vec load(const bf16* p) { return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
inline Vec load(const f16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
// Loads the first n elements (0 <= n <= kLanes), with zeros after them; reads nothing beyond them.
inline Vec load(const float* p, std::int64_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
inline Vec load(const bf16* p, std::int64_t n) {
  return widen_bf16(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
inline Vec load(const f16* p, std::int64_t n) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p))};
}

inline void store(float* p, Vec x) { _mm512_storeu_ps(p, x.v); }
inline void store(bf16* p, Vec x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(x.v)); }
inline void store(f16* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT));
}
// Stores the first n lanes only.
inline void store(float* p, Vec x, std::int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), x.v); }
inline void store(bf16* p, Vec x, std::int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow_bf16(x.v));
}
inline void store(f16* p, Vec x, std::int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT));
}

// The values that a store and a load would give.
inline Vec rounded(float, Vec x) { return x; }
inline Vec rounded(bf16, Vec x) { return widen_bf16(narrow_bf16(x.v)); }
inline Vec rounded(f16, Vec x) { return {_mm512_cvtph_ps(_mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT))}; }

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    // a b + c
inline Vec fms(Vec a, Vec b, Vec c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }    // a b - c
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a b
// Returns the second operand if either is NaN.
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
inline Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
inline Vec round(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// a 2^n in lanes of the mask, for integers n in -126..128; 0 in other lanes, for any n.
inline Vec scale2(Mask where, Vec a, Vec n) { return {_mm512_maskz_scalef_ps(where, a.v, n.v)}; }

// Comparisons with a NaN are false, except not_less.
inline Mask not_less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ); }
inline Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
inline Mask equal(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }
inline Vec select(Mask m, Vec yes, Vec no) { return {_mm512_mask_blend_ps(m, no.v, yes.v)}; }
inline bool any(Mask m) { return m != 0; }
inline Mask either(Mask a, Mask b) { return a | b; }
inline unsigned bits(Mask m) { return m; }  // bit i: lane i

inline float sum(Vec a) { return _mm512_reduce_add_ps(a.v); }
inline float largest(Vec a) { return _mm512_reduce_max_ps(a.v); }

// A table of 16 floats.
struct Table {
  __m512 v;
};
inline Table table(const float* p, float scale) { return {(load(p) * splat(scale)).v}; }
// Looks kLanes values up by the 4-bit numbers in kLanes / 2 bytes; the high half of a byte comes first.
inline Vec look_up(const Table& t, const std::uint8_t* numbers) {
  const __m512i halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512i shifts = _mm512_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24, 4, 0, 12, 8, 20, 16, 28, 24);
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(numbers));
  const __m512i n =
      _mm512_srlv_epi32(_mm512_permutexvar_epi32(halves, _mm512_castsi128_si512(bytes)), shifts);
  return {_mm512_permutexvar_ps(n, t.v)};
}

// A table of 256 floats.
struct ByteTable {
  __m512 v[16];
};
inline ByteTable byte_table(const float* p) {
  ByteTable t;
  for (int i = 0; i < 16; ++i) t.v[i] = _mm512_loadu_ps(p + 16 * i);
  return t;
}
// Looks kLanes values up by bytes: in all pairs of vectors by the lowest five bits, then by one more bit at a
// time.
inline Vec look_up(const ByteTable& t, const std::uint8_t* bytes) {
  const __m512i n = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  __m512 x[8];
  for (int i = 0; i < 8; ++i) x[i] = _mm512_permutex2var_ps(t.v[2 * i], n, t.v[2 * i + 1]);
  for (int left = 4, bit = 32; left > 0; left /= 2, bit *= 2) {
    const Mask odd = _mm512_test_epi32_mask(n, _mm512_set1_epi32(bit));
    for (int i = 0; i < left; ++i) x[i] = _mm512_mask_blend_ps(odd, x[2 * i], x[2 * i + 1]);
  }
  return {x[0]};
}

// A vector of 32-bit words, see words.h.
struct WordVec {
  __m512i v;
};
inline WordVec load_words(const std::uint32_t* p) { return {_mm512_loadu_si512(p)}; }
inline WordVec splat_word(std::uint32_t w) { return {_mm512_set1_epi32(static_cast<int>(w))}; }
inline void store_words(std::uint32_t* p, WordVec x) { _mm512_storeu_si512(p, x.v); }
inline WordVec as_words(Vec x) { return {_mm512_castps_si512(x.v)}; }
inline Vec as_floats(WordVec x) { return {_mm512_castsi512_ps(x.v)}; }
inline WordVec shifted_right(WordVec x, int bits) {
  return {_mm512_srli_epi32(x.v, static_cast<unsigned>(bits))};
}
// Looks values up by the lowest four bits of each word.
inline Vec look_up(const Table& t, WordVec numbers) { return {_mm512_permutexvar_ps(numbers.v, t.v)}; }
inline Vec from_integers(WordVec x) { return {_mm512_cvtepi32_ps(x.v)}; }
inline WordVec to_integers(Vec x) { return {_mm512_cvtps_epi32(x.v)}; }  // to nearest, ties to even
// Stores integers from 0 to 255 as bytes; 0 for NaN.
inline void store_bytes(std::uint8_t* p, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v)));
}
// Byte i of each word, from -128 to 127.
inline Vec signed_byte(WordVec x, int i) {
  const auto up = static_cast<unsigned>(24 - 8 * i);
  return {_mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(x.v, up), 24))};
}
inline Vec load_signed(const std::int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
// Values of e4m3 codes other than NaN, in the bias of f16, and byte i of each word in the bias of f32: see
// fp8.h.
inline Vec load_e4m3(const std::uint8_t* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm512_cvtph_ps(
      _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbf80))))};
}
inline Vec e4m3_byte(WordVec x, int i) {
  const __m512i top = _mm512_slli_epi32(x.v, static_cast<unsigned>(24 - 8 * i));
  return {_mm512_castsi512_ps(
      _mm512_and_si512(_mm512_srai_epi32(top, 4), _mm512_set1_epi32(static_cast<int>(0x87f00000u))))};
}
// Words of two bf16 that are neighbours in memory; at most n elements.
inline WordVec load_pairs(const bf16* p) { return {_mm512_loadu_si512(p)}; }
inline WordVec load_pairs(const bf16* p, std::int64_t n) {
  const auto mask = n >= 32 ? __mmask32(~0u) : n <= 0 ? __mmask32(0) : __mmask32((1u << n) - 1);
  return {_mm512_maskz_loadu_epi16(mask, p)};
}
// Words of two bf16: lo's in the lower halves, hi's in the upper ones.
inline WordVec pair_rows(__m256i lo, __m256i hi) {
  constexpr std::uint16_t kTurns[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                        8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  return {_mm512_permutex2var_epi16(_mm512_castsi256_si512(lo), _mm512_loadu_si512(kTurns),
                                    _mm512_castsi256_si512(hi))};
}
inline WordVec load_pair_rows(const bf16* lo, const bf16* hi, std::int64_t n) {
  return pair_rows(_mm256_maskz_loadu_epi16(first_lanes(n), lo),
                   _mm256_maskz_loadu_epi16(first_lanes(n), hi));
}
inline WordVec load_pair_rows(const bf16* lo, std::int64_t n) {  // the second row is zeros
  return {_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(n), lo))};
}
// Functions from here on are for types with such instructions. Narrows lo's elements, then hi's.
template <class T>
inline WordVec narrow_rows(T, Vec lo, Vec hi) {
  return {narrow_both(T{}, lo.v, hi.v)};
}
inline void store_rows(bf16* lo, bf16* hi, WordVec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lo), _mm512_castsi512_si256(x.v));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(hi), _mm512_extracti64x4_epi64(x.v, 1));
}
inline WordVec pair_rows(WordVec x) {  // pairs the halves of a result of narrow_rows
  constexpr std::uint16_t kTurns[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return {_mm512_permutexvar_epi16(_mm512_loadu_si512(kTurns), x.v)};
}
// Widens 2 * kLanes bytes to pairs, and looks up pairs in a table by the lowest four bits.
template <class T>
inline WordVec load_bytes(T, const std::uint8_t* p) {
  return {_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
template <class T>
inline WordVec pair_table(T, const Table& t) {
  return {narrow_both(T{}, t.v, t.v)};
}
template <class T>
inline WordVec look_up_pairs(T, WordVec table, WordVec numbers) {
  return {_mm512_permutexvar_epi16(numbers.v, table.v)};
}
// Separates 4 * kLanes elements: those at even places, then those at odd ones.
template <class T>
inline void split_pairs(T, std::uint32_t* to, const std::uint32_t* from) {
  constexpr std::uint16_t kPlaces[64] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                                         32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62,
                                         1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                         33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 16);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, _mm512_loadu_si512(kPlaces), b));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(a, _mm512_loadu_si512(kPlaces + 32), b));
}
// Pairs elements i and i + kLanes of 2 * kLanes elements.
template <class T>
inline void pair_halves(T, std::uint32_t* to, const std::uint32_t* from) {
  _mm512_storeu_si512(to, pair_rows({_mm512_loadu_si512(from)}).v);
}
// Does the same for floats that T, the upper half of a float, holds exactly.
template <class T>
inline WordVec pair_halves(T, Vec lo, Vec hi) {
  return {_mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(lo.v), 16), _mm512_castps_si512(hi.v))};
}
// Values of 2 * kLanes codes of e4m3 other than NaN, in the bias of f16 (fp8.h), as pairs of neighbours. The
// exponent becomes bf16's by an addition; codes of subnormal numbers are looked up.
inline WordVec load_e4m3_pairs(bf16, const std::uint8_t* p) {
  const auto in_both = [](int half) { return _mm512_set1_epi32(half << 16 | half); };
  constexpr std::uint16_t kSubnormal[32] = {0, 0x3700, 0x3780, 0x37c0, 0x3800, 0x3820, 0x3840, 0x3860};
  const __m512i codes = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  const __m512i fields = _mm512_and_si512(_mm512_slli_epi32(codes, 4), in_both(0x07f0));
  const __m512i size = _mm512_mask_permutexvar_epi16(_mm512_add_epi32(fields, in_both(0x3800)),
                                                     _mm512_testn_epi16_mask(codes, in_both(0x78)), codes,
                                                     _mm512_loadu_si512(kSubnormal));
  return {_mm512_or_si512(size, _mm512_and_si512(codes, in_both(0x8000)))};
}
template <class T>
inline Vec dot_pairs(T, Vec c, WordVec a, WordVec b) {
  return {dot(T{}, c.v, a.v, b.v)};
}

// r[i] lane j <-> r[j] lane i.
[[gnu::always_inline]] inline void transpose_in_registers(WordVec (&w)[kLanes]) {
  __m512i r[16], t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(w[2 * i].v, w[2 * i + 1].v);
    t[2 * i + 1] = _mm512_unpackhi_epi32(w[2 * i].v, w[2 * i + 1].v);
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j) {
      r[4 * i + 2 * j] = _mm512_unpacklo_epi64(t[4 * i + j], t[4 * i + j + 2]);
      r[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(t[4 * i + j], t[4 * i + j + 2]);
    }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 8; ++i) {
    w[i].v = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    w[i + 8].v = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
