// Wraps the instructions of AVX512_BF16, which treat denormals as zero. A target without them rounds f32 to
// bf16 with plain AVX-512, which keeps denormals.
#pragma once
#include <immintrin.h>

#include "engine/core/dtype.h"

namespace ft::cpu::FT_TARGET {
namespace {

#ifdef __AVX512BF16__
// c plus the two products in every word.
inline __m512 dot(bf16, __m512 c, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}
inline __m256i narrow_bf16(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
// Narrows lower's elements, then upper's.
inline __m512i narrow_both(bf16, __m512 lower, __m512 upper) {
  return (__m512i)_mm512_cvtne2ps_pbh(upper, lower);
}
#else
// Rounds to nearest, ties to even; a NaN stays a NaN.
inline __m256i narrow_bf16(__m512 x) {
  const __m512i u = _mm512_castps_si512(x), upper = _mm512_srli_epi32(u, 16);
  const __m512i even = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), nan, quiet));
}
#endif

}  // namespace
}  // namespace ft::cpu::FT_TARGET
