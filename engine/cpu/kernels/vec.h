// The vector of floats that kernels use: 16 lanes with AVX-512, 8 with AVX2. Kernel sources are compiled once
// per target (see engine/cpu/CMakeLists.txt), each into its own namespace ft::cpu::FT_TARGET. Everything here
// is in an anonymous namespace: the linker would merge inline functions with external linkage across targets,
// and the AVX2 code could then run AVX-512 instructions.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"
// Selects the target's vectors. No other code of the kernels tests the compilation target.
#ifdef __AVX512F__
  #include "engine/cpu/kernels/vec_avx512.h"
#else
  #include "engine/cpu/kernels/vec_avx2.h"
#endif

namespace ft::cpu::FT_TARGET {
namespace {

// 2^x with a relative error below 3e-7; 0 below -126, infinity from 128, NaN for NaN.
inline Vec exp2(Vec x) {
  const Vec bounded = min(splat(128.0f), max(splat(-126.0f), x));  // a NaN passes both
  const Vec n = round(bounded), f = bounded - n;
  constexpr float kPowers[] = {1.5403530e-4f, 1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f,
                               2.4022651e-1f, 6.9314718e-1f, 1.0f};
  Vec p = splat(kPowers[0]);
  for (int i = 1; i < 7; ++i) p = fma(p, f, splat(kPowers[i]));
  return scale2(not_less(x, splat(-126.0f)), p, n);
}

// e^x with a relative error below 3e-7 times (1 + |x|), because the product below is rounded.
inline Vec exp(Vec x) { return exp2(x * splat(1.44269504f)); }

}  // namespace
}  // namespace ft::cpu::FT_TARGET
