// The AVX-512 intrinsics that engine/cpu/kernels uses, written in AVX2. With them the same sources as for the
// targets avx512 and avx512_bf16 run, and are tested, on a CPU that has neither. Included before a kernel
// source (-include), this header declares the intrinsics in the source's namespace, where they hide the
// compiler's, and defines __AVX512F__. Each intrinsic is described in Intel's Intrinsics Guide and its
// Software Developer's Manual. An intrinsic that is missing here calls the compiler's, which the compiler
// refuses without AVX-512.
#pragma once
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

// Defined after <immintrin.h>, which tests it too.
#define __AVX512F__ 1
#undef _mm512_setr_ps  // macros, not functions
#undef _mm512_setr_epi32

namespace ft::cpu {
struct Kernels;
}
namespace ft::cpu::FT_TARGET {
#ifdef FT_BF16_DOT
  #define __AVX512BF16__ 1
constexpr bool kBf16Dot = true;
#else
constexpr bool kBf16Dot = false;
#endif
const Kernels& kernels();

namespace {

// A vector as an array of lanes of any kind: elements, halves, quarters.
template <class T, class V>
struct Lanes {
  static constexpr int kCount = sizeof(V) / sizeof(T);
  T at[kCount];
  Lanes() = default;
  explicit Lanes(V x) { std::memcpy(at, &x, sizeof at); }
  V vector() const {
    V x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
};
using Floats = Lanes<float, __m512>;
using WordLanes = Lanes<std::uint32_t, __m512i>;
using ShortWords = Lanes<std::uint16_t, __m512i>;
using Quarters = Lanes<__m128i, __m512i>;
inline Lanes<__m256, __m512> halves(__m512 x) { return Lanes<__m256, __m512>(x); }
inline Lanes<__m256i, __m512i> halves(__m512i x) { return Lanes<__m256i, __m512i>(x); }
inline Lanes<__m128i, __m256i> halves(__m256i x) { return Lanes<__m128i, __m256i>(x); }

// joined() makes a vector of two halves. by_halves() applies f to the lower halves and to the upper halves.
template <class V, class Half>
inline V joined(Half lo, Half hi) {
  Lanes<Half, V> y;
  y.at[0] = lo;
  y.at[1] = hi;
  return y.vector();
}
template <class V, class F, class... X>
inline V by_halves(F f, X... x) {
  return joined<V>(f(halves(x).at[0]...), f(halves(x).at[1]...));
}
template <class F, class... X>
inline __m512 floats(F f, X... x) {
  return by_halves<__m512>(f, x...);
}
template <class F, class... X>
inline __m512i words(F f, X... x) {
  return by_halves<__m512i>(f, x...);
}

inline __m512i _mm512_castps_si512(__m512 x) { return (__m512i)x; }
inline __m512 _mm512_castsi512_ps(__m512i x) { return (__m512)x; }
inline __m512i _mm512_castsi128_si512(__m128i x) {  // the upper quarters are undefined
  Quarters y;
  for (__m128i& quarter : y.at) quarter = _mm_set1_epi32(static_cast<int>(0xdeadbeef));
  y.at[0] = x;
  return y.vector();
}

inline __m512i _mm512_castsi256_si512(__m256i x) {  // the upper half is undefined
  return joined<__m512i>(x, _mm256_set1_epi32(static_cast<int>(0xdeadbeef)));
}
inline __m256i _mm512_castsi512_si256(__m512i x) { return halves(x).at[0]; }
inline __m256i _mm512_extracti64x4_epi64(__m512i x, int which) { return halves(x).at[which & 1]; }

inline __m512 _mm512_set1_ps(float x) { return joined<__m512>(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
inline __m512 _mm512_setzero_ps() { return _mm512_set1_ps(0); }
inline __m512i _mm512_set1_epi32(int x) {
  return joined<__m512i>(_mm256_set1_epi32(x), _mm256_set1_epi32(x));
}
template <class... X>
inline __m512 _mm512_setr_ps(X... x) {
  Floats y;
  int i = 0;
  ((y.at[i++] = static_cast<float>(x)), ...);
  return y.vector();
}
template <class... X>
inline __m512i _mm512_setr_epi32(X... x) {
  WordLanes y;
  int i = 0;
  ((y.at[i++] = static_cast<std::uint32_t>(x)), ...);
  return y.vector();
}

// Comparisons and selection.
template <int How>
inline __mmask16 compared(__m512 a, __m512 b) {
  const auto which = halves(floats([](auto x, auto y) { return _mm256_cmp_ps(x, y, How); }, a, b));
  return static_cast<__mmask16>(_mm256_movemask_ps(which.at[0]) | _mm256_movemask_ps(which.at[1]) << 8);
}
inline __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int how) {
  if (how == _CMP_LT_OQ) return compared<_CMP_LT_OQ>(a, b);
  if (how == _CMP_NLT_UQ) return compared<_CMP_NLT_UQ>(a, b);
  if (how == _CMP_EQ_OQ) return compared<_CMP_EQ_OQ>(a, b);
  if (how == _CMP_UNORD_Q) return compared<_CMP_UNORD_Q>(a, b);
  __builtin_trap();
}
inline __mmask16 _mm512_test_epi32_mask(__m512i a, __m512i b) {
  const WordLanes both(a & b);
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i) mask |= (both.at[i] != 0 ? 1u : 0u) << i;
  return static_cast<__mmask16>(mask);
}
// Sets all bits of the lanes that are in the mask.
inline __m512i lanes_of(__mmask16 m) {
  const __m512i bits =
      _mm512_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768);
  return words([](auto x, auto y) { return _mm256_cmpeq_epi32(_mm256_and_si256(x, y), y); },
               _mm512_set1_epi32(m), bits);
}
inline __m512i _mm512_mask_mov_epi32(__m512i no, __mmask16 m, __m512i yes) {
  return words([](auto x, auto y, auto which) { return _mm256_blendv_epi8(x, y, which); }, no, yes,
               lanes_of(m));
}
inline __m512 _mm512_mask_blend_ps(__mmask16 m, __m512 no, __m512 yes) {
  return (__m512)_mm512_mask_mov_epi32((__m512i)no, m, (__m512i)yes);
}

// Memory. A masked access touches only the lanes in the mask.
template <class V>
inline V read(const void* p) {
  V x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
template <class V>
inline V read_halves(const void* p, std::uint32_t mask) {
  Lanes<std::uint16_t, V> y;
  for (int i = 0; i < y.kCount; ++i) {
    y.at[i] = 0;
    if (mask >> i & 1) std::memcpy(y.at + i, static_cast<const std::uint16_t*>(p) + i, 2);
  }
  return y.vector();
}
inline __m512 _mm512_loadu_ps(const void* p) { return read<__m512>(p); }
inline __m512i _mm512_loadu_si512(const void* p) { return read<__m512i>(p); }
inline void _mm512_storeu_ps(void* p, __m512 x) { std::memcpy(p, &x, sizeof x); }
inline void _mm512_storeu_si512(void* p, __m512i x) { std::memcpy(p, &x, sizeof x); }
inline __m512 _mm512_maskz_loadu_ps(__mmask16 m, const void* p) {
  const auto which = halves(lanes_of(m));
  const auto* x = static_cast<const float*>(p);
  return joined<__m512>(_mm256_maskload_ps(x, which.at[0]), _mm256_maskload_ps(x + 8, which.at[1]));
}
inline __m512i _mm512_maskz_loadu_epi16(__mmask32 m, const void* p) { return read_halves<__m512i>(p, m); }
inline __m256i _mm256_maskz_loadu_epi16(__mmask16 m, const void* p) { return read_halves<__m256i>(p, m); }
inline void _mm512_mask_storeu_ps(void* p, __mmask16 m, __m512 x) {
  const auto which = halves(lanes_of(m));
  const auto from = halves(x);
  auto* y = static_cast<float*>(p);
  _mm256_maskstore_ps(y, which.at[0], from.at[0]);
  _mm256_maskstore_ps(y + 8, which.at[1], from.at[1]);
}
inline void _mm256_mask_storeu_epi16(void* p, __mmask16 m, __m256i x) {
  const Lanes<std::uint16_t, __m256i> y(x);
  for (int i = 0; i < y.kCount; ++i)
    if (m >> i & 1) std::memcpy(static_cast<std::uint16_t*>(p) + i, y.at + i, 2);
}

// Arithmetic.
inline __m512 _mm512_add_ps(__m512 a, __m512 b) {
  return floats([](auto x, auto y) { return _mm256_add_ps(x, y); }, a, b);
}
inline __m512 _mm512_sub_ps(__m512 a, __m512 b) {
  return floats([](auto x, auto y) { return _mm256_sub_ps(x, y); }, a, b);
}
inline __m512 _mm512_mul_ps(__m512 a, __m512 b) {
  return floats([](auto x, auto y) { return _mm256_mul_ps(x, y); }, a, b);
}
inline __m512 _mm512_div_ps(__m512 a, __m512 b) {
  return floats([](auto x, auto y) { return _mm256_div_ps(x, y); }, a, b);
}
inline __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
  return floats([](auto x, auto y, auto z) { return _mm256_fmadd_ps(x, y, z); }, a, b, c);
}
inline __m512 _mm512_fmsub_ps(__m512 a, __m512 b, __m512 c) {
  return floats([](auto x, auto y, auto z) { return _mm256_fmsub_ps(x, y, z); }, a, b, c);
}
inline __m512 _mm512_fnmadd_ps(__m512 a, __m512 b, __m512 c) {
  return floats([](auto x, auto y, auto z) { return _mm256_fnmadd_ps(x, y, z); }, a, b, c);
}
inline __m512 _mm512_max_ps(__m512 a, __m512 b) {
  return floats([](auto x, auto y) { return _mm256_max_ps(x, y); }, a, b);
}
inline __m512 _mm512_min_ps(__m512 a, __m512 b) {
  return floats([](auto x, auto y) { return _mm256_min_ps(x, y); }, a, b);
}
inline __m512 _mm512_sqrt_ps(__m512 a) {
  return floats([](auto x) { return _mm256_sqrt_ps(x); }, a);
}
inline __m512 _mm512_abs_ps(__m512 a) {
  return floats([](auto x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }, a);
}
inline __m512 _mm512_roundscale_ps(__m512 a, int how) {
  if (how != (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)) __builtin_trap();
  return floats([](auto x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }, a);
}
inline __m512 _mm512_scalef_ps(__m512 a, __m512 b) {  // a 2^floor(b)
  const auto floor = [](auto x) { return _mm256_floor_ps(x); };
  const auto power = [](auto x) {  // 2^x, -126 <= x <= 127
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127)), 23));
  };
  const __m512 n = floats(floor, b), half = floats(floor, _mm512_mul_ps(n, _mm512_set1_ps(0.5f)));
  const __m512 bound = _mm512_set1_ps(253);
  if (_mm512_cmp_ps_mask(_mm512_abs_ps(n), bound, _CMP_LT_OQ) == 0xffff)  // the first product is exact
    return _mm512_mul_ps(_mm512_mul_ps(a, floats(power, half)), floats(power, _mm512_sub_ps(n, half)));
  Floats x(a);
  const Floats m(n);
  for (int i = 0; i < x.kCount; ++i)
    x.at[i] = std::isfinite(m.at[i]) ? std::ldexp(x.at[i], static_cast<int>(m.at[i]))
                                     : x.at[i] * std::exp2(m.at[i]);
  return x.vector();
}
inline __m512 _mm512_maskz_scalef_ps(__mmask16 m, __m512 a, __m512 b) {
  return (__m512)_mm512_mask_mov_epi32((__m512i)_mm512_setzero_ps(), m, (__m512i)_mm512_scalef_ps(a, b));
}
// Combines halves with f until one lane is left.
template <class F>
inline float reduced(__m512 a, F f) {
  Floats x(a);
  for (int n = 8; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) x.at[i] = f(x.at[i], x.at[i + n]);
  return x.at[0];
}
inline float _mm512_reduce_add_ps(__m512 a) {
  return reduced(a, [](float x, float y) { return x + y; });
}
inline float _mm512_reduce_max_ps(__m512 a) {
  return reduced(a, [](float x, float y) { return x > y ? x : y; });
}

// Bits.
inline __m512i _mm512_and_si512(__m512i a, __m512i b) { return a & b; }
inline __m512i _mm512_or_si512(__m512i a, __m512i b) { return a | b; }
inline __mmask32 _mm512_testn_epi16_mask(__m512i a, __m512i b) {
  const ShortWords x(a & b);
  __mmask32 m = 0;
  for (int i = 0; i < x.kCount; ++i) m |= static_cast<__mmask32>(x.at[i] == 0) << i;
  return m;
}
inline __m512i _mm512_add_epi32(__m512i a, __m512i b) {
  return words([](auto x, auto y) { return _mm256_add_epi32(x, y); }, a, b);
}
inline __m512i _mm512_slli_epi32(__m512i a, int n) {
  return words([n](auto x) { return _mm256_sll_epi32(x, _mm_cvtsi32_si128(n)); }, a);
}
inline __m512i _mm512_srli_epi32(__m512i a, int n) {
  return words([n](auto x) { return _mm256_srl_epi32(x, _mm_cvtsi32_si128(n)); }, a);
}
inline __m512i _mm512_srai_epi32(__m512i a, int n) {
  return words([n](auto x) { return _mm256_sra_epi32(x, _mm_cvtsi32_si128(n)); }, a);
}
inline __m512i _mm512_srlv_epi32(__m512i a, __m512i n) {
  return words([](auto x, auto y) { return _mm256_srlv_epi32(x, y); }, a, n);
}

// Orders of lanes.
inline __m512i _mm512_unpacklo_epi32(__m512i a, __m512i b) {
  return words([](auto x, auto y) { return _mm256_unpacklo_epi32(x, y); }, a, b);
}
inline __m512i _mm512_unpackhi_epi32(__m512i a, __m512i b) {
  return words([](auto x, auto y) { return _mm256_unpackhi_epi32(x, y); }, a, b);
}
inline __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) {
  return words([](auto x, auto y) { return _mm256_unpacklo_epi64(x, y); }, a, b);
}
inline __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) {
  return words([](auto x, auto y) { return _mm256_unpackhi_epi64(x, y); }, a, b);
}
// Takes two quarters of a, then two of b; each is chosen by two bits of `which`.
inline __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int which) {
  const Quarters x(a), y(b);
  Quarters z;
  for (int i = 0; i < 4; ++i) z.at[i] = (i < 2 ? x : y).at[which >> 2 * i & 3];
  return z.vector();
}
inline __m512i _mm512_permutexvar_epi32(__m512i which, __m512i a) {
  WordLanes n(which);
  const WordLanes x(a);
  for (auto& lane : n.at) lane = x.at[lane & 15];
  return n.vector();
}
// Lane i becomes lane which[i] of a; with two sources, of a's lanes followed by b's.
inline __m512i _mm512_permutexvar_epi16(__m512i which, __m512i a) {
  ShortWords n(which);
  const ShortWords x(a);
  for (auto& lane : n.at) lane = x.at[lane & 31];
  return n.vector();
}
inline __m512i _mm512_mask_permutexvar_epi16(__m512i other, __mmask32 m, __m512i which, __m512i a) {
  ShortWords x(other);
  const ShortWords moved(_mm512_permutexvar_epi16(which, a));
  for (int i = 0; i < x.kCount; ++i)
    if (m >> i & 1) x.at[i] = moved.at[i];
  return x.vector();
}
inline __m512i _mm512_permutex2var_epi16(__m512i a, __m512i which, __m512i b) {
  ShortWords n(which);
  const ShortWords x(a), y(b);
  for (auto& lane : n.at) lane = (lane & 32 ? y : x).at[lane & 31];
  return n.vector();
}
inline __m512 _mm512_permutexvar_ps(__m512i which, __m512 a) {
  return (__m512)_mm512_permutexvar_epi32(which, (__m512i)a);
}
inline __m512 _mm512_permutex2var_ps(__m512 a, __m512i which, __m512 b) {
  WordLanes n(which);
  const WordLanes x((__m512i)a), y((__m512i)b);
  for (auto& lane : n.at) lane = (lane & 16 ? y : x).at[lane & 15];
  return (__m512)n.vector();
}

// Conversions.
inline __m512 _mm512_cvtepi32_ps(__m512i a) {
  return floats([](auto x) { return _mm256_cvtepi32_ps(x); }, a);
}
inline __m512i _mm512_cvtps_epi32(__m512 a) {
  return words([](auto x) { return _mm256_cvtps_epi32(x); }, a);
}
inline __m512i _mm512_cvtepu8_epi32(__m128i a) {
  return joined<__m512i>(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8)));
}
inline __m128i _mm512_cvtepi32_epi8(__m512i a) {
  const WordLanes x(a);
  Lanes<std::uint8_t, __m128i> y;
  for (int i = 0; i < y.kCount; ++i) y.at[i] = static_cast<std::uint8_t>(x.at[i]);
  return y.vector();
}
inline __m512i _mm512_cvtepi8_epi32(__m128i a) {
  return joined<__m512i>(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8)));
}
inline __m512i _mm512_cvtepi8_epi16(__m256i a) {
  return joined<__m512i>(_mm256_cvtepi8_epi16(halves(a).at[0]), _mm256_cvtepi8_epi16(halves(a).at[1]));
}
inline __m512i _mm512_cvtepu8_epi16(__m256i a) {
  return joined<__m512i>(_mm256_cvtepu8_epi16(halves(a).at[0]), _mm256_cvtepu8_epi16(halves(a).at[1]));
}
inline __m512i _mm512_cvtepu16_epi32(__m256i a) {
  return words([](auto x) { return _mm256_cvtepu16_epi32(x); }, a);
}
inline __m256i _mm512_cvtepi32_epi16(__m512i a) {
  const WordLanes x(a);
  Lanes<std::uint16_t, __m256i> y;
  for (int i = 0; i < y.kCount; ++i) y.at[i] = static_cast<std::uint16_t>(x.at[i]);
  return y.vector();
}
inline __m512 _mm512_cvtph_ps(__m256i a) {
  return floats([](auto x) { return _mm256_cvtph_ps(x); }, a);
}
inline __m256i _mm512_cvtps_ph(__m512 a, int how) {
  if (how != _MM_FROUND_TO_NEAREST_INT) __builtin_trap();
  return by_halves<__m256i>([](auto x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }, a);
}

#ifdef FT_BF16_DOT
// Replaces denormals by zero. Both bf16 instructions read denormals as zero, and the first one also writes
// none.
inline __m512 without_denormals(__m512 a) {
  return floats(
      [](auto x) {
        const auto sign = _mm256_set1_ps(-0.0f), least = _mm256_set1_ps(0x1p-126f);
        const auto keep = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), least, _CMP_NLT_UQ);
        return _mm256_and_ps(x, _mm256_or_ps(keep, sign));
      },
      a);
}
// Computes c + the products of the upper halves of the words + the products of the lower halves, rounded
// after each addition.
inline __m512 _mm512_dpbf16_ps(__m512 c, __m512bh a, __m512bh b) {
  const auto a_words = (__m512i)a, b_words = (__m512i)b;
  const auto upper = [](__m512i x) { return (__m512)(x & _mm512_set1_epi32(static_cast<int>(0xffff0000u))); };
  const auto lower = [](__m512i x) { return (__m512)_mm512_slli_epi32(x, 16); };
  const auto add = [](__m512 sum, __m512 x, __m512 y) {
    return without_denormals(_mm512_fmadd_ps(without_denormals(x), without_denormals(y), sum));
  };
  return add(add(without_denormals(c), upper(a_words), upper(b_words)), lower(a_words), lower(b_words));
}
inline __m256bh _mm512_cvtneps_pbh(__m512 a) {
  const WordLanes x((__m512i)without_denormals(a));
  Lanes<std::uint16_t, __m256i> y;
  for (int i = 0; i < y.kCount; ++i) {
    const std::uint32_t w = x.at[i], upper = w >> 16;
    const bool nan = (w & 0x7fffffffu) > 0x7f800000u;
    y.at[i] = static_cast<std::uint16_t>(nan ? upper | 0x40 : (w + 0x7fff + (upper & 1)) >> 16);
  }
  return (__m256bh)y.vector();
}
inline __m512bh _mm512_cvtne2ps_pbh(__m512 upper, __m512 lower) {
  return (__m512bh)joined<__m512i>((__m256i)_mm512_cvtneps_pbh(lower), (__m256i)_mm512_cvtneps_pbh(upper));
}
#endif

}  // namespace
}  // namespace ft::cpu::FT_TARGET
