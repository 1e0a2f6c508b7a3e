// Products on tensor cores: the instructions that C++ has no words for. tests/cuda_on_cpu says them in loops.
#pragma once
#include <cuda_runtime.h>

#include "engine/core/dtype.h"

namespace ft::cuda {

// d (16, 8) += a (16, 16) b (16, 8) by a whole warp, bf16 or f16 with sums in f32. Two neighbouring elements
// make a word, the first in its low half. Lane 4 g + t holds   of a the columns 2t, 2t + 1 of rows g and
// g + 8, then 2t + 8, 2t + 9 of both;   of b the rows 2t, 2t + 1 of column g, then rows 2t + 8, 2t + 9;
// of d the columns 2t, 2t + 1 of row g, then of row g + 8.
#ifdef __CUDACC__
__device__ inline void mma(bf16, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void mma(f16, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Both rounded to the type; in f16 what is too large becomes infinite.
__device__ inline unsigned pair_of(bf16, float low, float high) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline unsigned pair_of(f16, float low, float high) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
#else
template <class T>
void mma(T type, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  cuda_on_cpu::mma(type, d, a, b);
}
template <class T>
unsigned pair_of(T type, float low, float high) {
  return cuda_on_cpu::pair_of(type, low, high);
}
#endif

}  // namespace ft::cuda
