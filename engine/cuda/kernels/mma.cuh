// GPU instructions that C++ has no syntax for: conversions and powers, products on tensor cores, matrices
// loaded from shared memory as fragments, asynchronous copies to shared memory. tests/cuda_on_cpu implements
// the same functions as loops.
//
// Addresses in shared memory are 32-bit numbers here, as in the instructions.
#pragma once
#include <cuda_runtime.h>

#include "engine/core/dtype.h"
#include "engine/quant/fp8.h"

namespace ft::cuda {

// mma: d (16, 8) += a (16, 16) b (16, 8) by a complete warp, bf16 or f16 with sums in f32. Two neighbouring
// elements make a word, the first in its low half. Lane 4 g + t holds
//   of a the columns 2t, 2t + 1 of rows g and g + 8, then 2t + 8, 2t + 9 of both;
//   of b the rows 2t, 2t + 1 of column g, then rows 2t + 8, 2t + 9;
//   of d the columns 2t, 2t + 1 of row g, then of row g + 8.
//
// mma_tf32: d (16, 8) += a (16, 8) b (8, 8) by a complete warp, with sums in f32. The operands are f32
// numbers whose lower 13 bits the instruction ignores; to_tf32 rounds to the nearest number without them.
// Lane 4 g + t holds
//   of a the rows g, g + 8 of column t, then of column t + 4;
//   of b the rows t, t + 4 of column g;
//   of d the same as above.
//
// load_matrices: loads four matrices of 8 x 8 two-byte elements. Lane i gives the address of row i % 8 of
// matrix i / 8, 16 bytes each. Lane 4 g + t gets of each matrix the columns 2t, 2t + 1 of row g, or,
// transposed, the rows 2t, 2t + 1 of column g.
//
// copy_16: begins to copy 16 bytes; both addresses are multiples of 16. If `there` is false it writes zeros
// and does not read `from`. copy_4: the same for 4 bytes. The copies that a thread has begun since its last
// commit_copies() are a group; wait_for_copies<n>() waits until at most n of the thread's groups are under
// way. Other threads see the data after a barrier after that.
//
// store_16: writes 16 bytes of global memory, at a multiple of 16. A plain store of a uint4 becomes four
// instructions at some addresses.
//
// widened, round_to: to_float and from_float of engine/core/dtype.h. Conversions of f16 and to bf16 are one
// instruction without branches, with the same results except for the bits of a NaN. pair_of: rounds two
// numbers to the type; in f16, numbers that are too large become infinite. power_of_2: correct to two units
// in the last place; denormal results become 0.
//
// e4m3_pair: codes of two numbers in FP8, the first in the low byte, as from_float of quant/fp8.h rounds
// them, except for the sign of a NaN. Compute capability 8.9 and later.
template <class T>
__device__ inline float widened(T v) {
  return to_float(v);
}
template <class T>
__device__ inline void round_to(T& y, float v) {
  from_float(y, v);
}
#ifdef __CUDACC__
__device__ inline float widened(f16 v) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(v.bits));
  return y;
}
__device__ inline void round_to(f16& y, float v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(v)); }
__device__ inline void round_to(bf16& y, float v) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(v)); }
__device__ inline void mma(bf16, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma(f16, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_tf32(float (&d)[4], const float (&a)[4], float b0, float b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}
__device__ inline float to_tf32(float x) {
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return __uint_as_float(y);
}
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
__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline unsigned e4m3_pair(float low, float high) {
  unsigned short codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}
__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ inline void* shared_pointer(unsigned address) { return __cvta_shared_to_generic(address); }
__device__ inline void load_matrices(unsigned (&m)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(row));
}
__device__ inline void load_matrices_transposed(unsigned (&m)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(row));
}
__device__ inline void copy_16(unsigned to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
               : "memory");
}
__device__ inline void copy_4(unsigned to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
               "r"(there ? 4 : 0)
               : "memory");
}
__device__ inline void store_16(void* to, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kUnderWay>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kUnderWay) : "memory");
}
#else
template <class T>
void mma(T type, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  cuda_on_cpu::mma(type, d, a, b0, b1);
}
inline void mma_tf32(float (&d)[4], const float (&a)[4], float b0, float b1) {
  cuda_on_cpu::mma_tf32(d, a, b0, b1);
}
inline float to_tf32(float x) { return cuda_on_cpu::to_tf32(x); }
template <class T>
unsigned pair_of(T type, float low, float high) {
  return cuda_on_cpu::pair_of(type, low, high);
}
inline float power_of_2(float x) { return std::exp2(x); }
inline unsigned e4m3_pair(float low, float high) {
  e4m3 first, second;
  from_float(first, low);
  from_float(second, high);
  return first.bits | unsigned{second.bits} << 8;
}
inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(p) - block_memory);
}
inline void* shared_pointer(unsigned address) { return block_memory + address; }
inline void load_matrices(unsigned (&m)[4], unsigned row) { cuda_on_cpu::load_matrices(m, row, false); }
inline void load_matrices_transposed(unsigned (&m)[4], unsigned row) {
  cuda_on_cpu::load_matrices(m, row, true);
}
inline void copy_16(unsigned to, const void* from, bool there) { cuda_on_cpu::copy(to, from, 16, there); }
inline void copy_4(unsigned to, const void* from, bool there) { cuda_on_cpu::copy(to, from, 4, there); }
inline void store_16(void* to, uint4 v) { *static_cast<uint4*>(to) = v; }
inline void commit_copies() { cuda_on_cpu::commit_copies(); }
template <int kUnderWay>
void wait_for_copies() {
  cuda_on_cpu::wait_for_copies(kUnderWay);
}
#endif

}  // namespace ft::cuda
