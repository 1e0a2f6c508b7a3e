// Vec with AVX2, FMA and F16C. Only vec.h includes this.
#pragma once
#include <immintrin.h>

#include <cstring>

namespace ft::cpu::FT_TARGET {
namespace {

constexpr int kLanes = 8;
struct Vec {
  __m256 v;
};
struct Mask {
  __m256 v;  // a lane has all bits set, or none
};

// The first n lanes; n may exceed kLanes or be negative.
inline Mask first_lanes(std::int64_t n) {
  const int m = n >= kLanes ? kLanes : n <= 0 ? 0 : static_cast<int>(n);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(m), lanes))};
}

inline Vec zero() { return {_mm256_setzero_ps()}; }
inline Vec splat(float x) { return {_mm256_set1_ps(x)}; }
inline Vec lane_numbers() { return {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7)}; }  // 0, 1, 2, ...

inline Vec widen_bf16(__m128i x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16))};
}
// Rounds to nearest, ties to even; a NaN stays a NaN.
inline __m128i narrow_bf16(Vec x) {
  const __m256i u = _mm256_castps_si256(x.v), upper = _mm256_srli_epi32(u, 16);
  const __m256i even = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q));
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i y = _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), quiet, nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
}
inline __m128i load_halves(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline __m128i load_halves(const void* p, std::int64_t n) {
  alignas(16) std::uint16_t part[kLanes] = {};
  std::memcpy(part, p, static_cast<std::size_t>(n) * 2);
  return load_halves(part);
}
inline void store_halves(void* p, __m128i x) { _mm_storeu_si128(static_cast<__m128i*>(p), x); }
inline void store_halves(void* p, __m128i x, std::int64_t n) {
  alignas(16) std::uint16_t part[kLanes];
  store_halves(part, x);
  std::memcpy(p, part, static_cast<std::size_t>(n) * 2);
}

inline Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline Vec load(const bf16* p) { return widen_bf16(load_halves(p)); }
inline Vec load(const f16* p) { return {_mm256_cvtph_ps(load_halves(p))}; }
// Loads the first n elements (0 <= n <= kLanes), with zeros after them; reads nothing beyond them.
inline Vec load(const float* p, std::int64_t n) {
  return {_mm256_maskload_ps(p, _mm256_castps_si256(first_lanes(n).v))};
}
inline Vec load(const bf16* p, std::int64_t n) { return widen_bf16(load_halves(p, n)); }
inline Vec load(const f16* p, std::int64_t n) { return {_mm256_cvtph_ps(load_halves(p, n))}; }

inline void store(float* p, Vec x) { _mm256_storeu_ps(p, x.v); }
inline void store(bf16* p, Vec x) { store_halves(p, narrow_bf16(x)); }
inline void store(f16* p, Vec x) { store_halves(p, _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT)); }
// Stores the first n lanes only.
inline void store(float* p, Vec x, std::int64_t n) {
  _mm256_maskstore_ps(p, _mm256_castps_si256(first_lanes(n).v), x.v);
}
inline void store(bf16* p, Vec x, std::int64_t n) { store_halves(p, narrow_bf16(x), n); }
inline void store(f16* p, Vec x, std::int64_t n) {
  store_halves(p, _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT), n);
}

// The values that a store and a load would give.
inline Vec rounded(float, Vec x) { return x; }
inline Vec rounded(bf16, Vec x) { return widen_bf16(narrow_bf16(x)); }
inline Vec rounded(f16, Vec x) { return {_mm256_cvtph_ps(_mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT))}; }

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }    // a b + c
inline Vec fms(Vec a, Vec b, Vec c) { return {_mm256_fmsub_ps(a.v, b.v, c.v)}; }    // a b - c
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a b
// Returns the second operand if either is NaN.
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
inline Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
inline Vec round(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// a 2^n in lanes of the mask, for integers n in -126..128 and a in (1/2, 2) or NaN; 0 in other lanes, for any
// n.
inline Vec scale2(Mask where, Vec a, Vec n) {
  const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n.v), 23);
  const __m256 y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.v), shift));
  const __m256 scaled = _mm256_blendv_ps(y, a.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q));
  return {_mm256_and_ps(where.v, scaled)};
}

// Comparisons with a NaN are false, except not_less.
inline Mask not_less(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NLT_UQ)}; }
inline Mask less(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask equal(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline Vec select(Mask m, Vec yes, Vec no) { return {_mm256_blendv_ps(no.v, yes.v, m.v)}; }
inline unsigned bits(Mask m) { return static_cast<unsigned>(_mm256_movemask_ps(m.v)); }  // bit i: lane i
inline bool any(Mask m) { return bits(m) != 0; }
inline Mask either(Mask a, Mask b) { return {_mm256_or_ps(a.v, b.v)}; }

inline float sum(Vec a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float largest(Vec a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

// A table of 16 floats.
struct Table {
  __m256 low, high;
};
inline Table table(const float* p, float scale) {
  const Vec s = splat(scale);
  return {(load(p) * s).v, (load(p + 8) * s).v};
}
// Looks values up by the lowest four bits of each word.
inline Vec look_up(const Table& t, __m256i n) {
  const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(n, 28));  // bit 3 as the sign
  return {_mm256_blendv_ps(_mm256_permutevar8x32_ps(t.low, n), _mm256_permutevar8x32_ps(t.high, n), upper)};
}
// Looks kLanes values up by the 4-bit numbers in kLanes / 2 bytes; the high half of a byte comes first.
inline Vec look_up(const Table& t, const std::uint8_t* numbers) {
  std::int32_t bytes;
  std::memcpy(&bytes, numbers, sizeof bytes);
  const __m256i shifts = _mm256_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24);
  return look_up(t, _mm256_srlv_epi32(_mm256_set1_epi32(bytes), shifts));
}

// A table of 256 floats.
struct ByteTable {
  const float* p;
};
inline ByteTable byte_table(const float* p) { return {p}; }
// Looks kLanes values up by bytes.
inline Vec look_up(const ByteTable& t, const std::uint8_t* bytes) {
  const __m128i n = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
  return {_mm256_i32gather_ps(t.p, _mm256_cvtepu8_epi32(n), 4)};
}

// A vector of 32-bit words, see words.h. Without bf16 dot products every word is a float.
struct WordVec {
  __m256i v;
};
inline WordVec load_words(const std::uint32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline WordVec splat_word(std::uint32_t w) { return {_mm256_set1_epi32(static_cast<int>(w))}; }
inline void store_words(std::uint32_t* p, WordVec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.v);
}
inline WordVec as_words(Vec x) { return {_mm256_castps_si256(x.v)}; }
inline Vec as_floats(WordVec x) { return {_mm256_castsi256_ps(x.v)}; }
inline WordVec shifted_right(WordVec x, int bits) { return {_mm256_srli_epi32(x.v, bits)}; }
inline Vec look_up(const Table& t, WordVec numbers) { return look_up(t, numbers.v); }
inline Vec from_integers(WordVec x) { return {_mm256_cvtepi32_ps(x.v)}; }
inline WordVec to_integers(Vec x) { return {_mm256_cvtps_epi32(x.v)}; }  // to nearest, ties to even
// Stores integers from 0 to 255 as bytes; 0 for NaN.
inline void store_bytes(std::uint8_t* p, Vec x) {
  const __m256i n = _mm256_cvtps_epi32(x.v);
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(halves, halves));
}
// Byte i of each word, from -128 to 127.
inline Vec signed_byte(WordVec x, int i) {
  return {_mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(x.v, 24 - 8 * i), 24))};
}
inline Vec load_signed(const std::int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
}
// Values of e4m3 codes other than NaN, in the bias of f16, and byte i of each word in the bias of f32: see
// fp8.h.
inline Vec load_e4m3(const std::uint8_t* p) {
  const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return {
      _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16(static_cast<short>(0xbf80))))};
}
inline Vec e4m3_byte(WordVec x, int i) {
  const __m256i top = _mm256_slli_epi32(x.v, 24 - 8 * i);
  return {_mm256_castsi256_ps(
      _mm256_and_si256(_mm256_srai_epi32(top, 4), _mm256_set1_epi32(static_cast<int>(0x87f00000u))))};
}

// r[i] lane j <-> r[j] lane i.
[[gnu::always_inline]] inline void transpose_in_registers(WordVec (&w)[kLanes]) {
  __m256i t[8], r[8];
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(w[2 * i].v, w[2 * i + 1].v);
    t[2 * i + 1] = _mm256_unpackhi_epi32(w[2 * i].v, w[2 * i + 1].v);
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      r[4 * i + 2 * j] = _mm256_unpacklo_epi64(t[4 * i + j], t[4 * i + j + 2]);
      r[4 * i + 2 * j + 1] = _mm256_unpackhi_epi64(t[4 * i + j], t[4 * i + j + 2]);
    }
  for (int i = 0; i < 4; ++i) {
    w[i].v = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    w[i + 4].v = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
  }
}

// Loads kLanes x kLanes elements of rows ld apart, as r[k] lane i = x[i * ld + k]. Rows i and i + 4 share a
// register from the start, which saves the transposition's last step; bf16 is widened by interleaving with
// zeros.
inline __m256i two_rows(const void* low, const void* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load_halves(low)), load_halves(high), 1);
}
[[gnu::always_inline]] inline void load_turned(WordVec (&r)[kLanes], const float* x, std::int64_t ld) {
  for (int k = 0; k < kLanes; k += 4) {
    __m256i a[4], t[4];
    for (int i = 0; i < 4; ++i) a[i] = two_rows(x + i * ld + k, x + (i + 4) * ld + k);
    for (int i = 0; i < 2; ++i) {
      t[i] = _mm256_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
      t[i + 2] = _mm256_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 2; ++i) {
      r[k + 2 * i].v = _mm256_unpacklo_epi64(t[2 * i], t[2 * i + 1]);
      r[k + 2 * i + 1].v = _mm256_unpackhi_epi64(t[2 * i], t[2 * i + 1]);
    }
  }
}
[[gnu::always_inline]] inline void load_turned(WordVec (&r)[kLanes], const bf16* x, std::int64_t ld) {
  __m256i a[4], t[4];
  for (int i = 0; i < 4; ++i) a[i] = two_rows(x + i * ld, x + (i + 4) * ld);
  for (int i = 0; i < 2; ++i) {
    t[i] = _mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
    t[i + 2] = _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
  }
  const __m256i zeros = _mm256_setzero_si256();
  for (int i = 0; i < 2; ++i) {
    const __m256i low = _mm256_unpacklo_epi32(t[2 * i], t[2 * i + 1]);
    const __m256i high = _mm256_unpackhi_epi32(t[2 * i], t[2 * i + 1]);
    r[4 * i].v = _mm256_unpacklo_epi16(zeros, low);
    r[4 * i + 1].v = _mm256_unpackhi_epi16(zeros, low);
    r[4 * i + 2].v = _mm256_unpacklo_epi16(zeros, high);
    r[4 * i + 3].v = _mm256_unpackhi_epi16(zeros, high);
  }
}
[[gnu::always_inline]] inline void load_turned(WordVec (&r)[kLanes], const f16* x, std::int64_t ld) {
  for (int i = 0; i < kLanes; ++i) r[i] = as_words(load(x + i * ld));
  transpose_in_registers(r);
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
