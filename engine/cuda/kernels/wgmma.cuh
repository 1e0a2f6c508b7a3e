// Products of a warpgroup (four neighbouring warps, the first a multiple of four) on the tensor cores of
// compute capability 9.0, compiled for sm_90a only: bf16 or f16 with sums in f32. They run in parallel with
// other instructions until a wait. tests/cuda_on_cpu implements the same functions as loops.
//
// A panel is a tile of kPanelRows rows and 64 columns at a multiple of 1024 bytes: Layout<64>, which NVIDIA
// calls a swizzle of 128 bytes. A matrix in shared memory has one panel for every 64 columns, one after
// another.
//
// multiply_group: d (64, 8 n) = a (64, 16) b (16, 8 n), or with `add` d += that product. Warp w of the group
// has rows 16 w to 16 w + 15 of d, and of a if it is in registers, as mma's fragments. An operand in shared
// memory is given by a descriptor (operand): of a by rows, or with `a_down` of its transpose; of b's
// transpose by rows, or with `b_down` of b itself.
//
// order_registers: called before the first product of several, after registers that they use have changed.
// commit_products, wait_for_products<n>: like commit_copies and wait_for_copies<n>.
// settle: keeps the compiler from moving accesses to these registers across it: before order_registers, and
// after a wait.
// compute_first(v): keeps a following wait behind the computation of v, a number of the size of
// probabilities. Otherwise the compiler would move the wait up, and compute nothing while products run.
// show_copies_to_products: makes data that this thread wrote to shared memory, by completed copies too,
// visible to products after the next barrier.
//
// meet_at: waits at a barrier, 1 to 15, until `threads` threads have arrived; arrive_at: arrives and
// continues.
// give_up_registers, take_registers: set the number of registers that each thread of the warpgroup may use
// from now on.
#pragma once
#include "engine/cuda/kernels/tiles.cuh"

namespace ft::cuda {

constexpr int kGroupThreads = 128;
constexpr int kPanelRows = 64, kPanelColumns = 64, kDepth = 16;
constexpr unsigned kPanelBytes = kTileBytes<kPanelRows, kPanelColumns>;
static_assert(Layout<kPanelColumns>::kShift == 0 && kPanelBytes % 1024 == 0);

// Descriptor of the elements that products read from `at` on: by rows, 16 columns of one panel; down, 16 rows
// of panels.
__device__ inline std::uint64_t operand(unsigned at) {
  constexpr std::uint64_t kBetweenPanels = kPanelBytes >> 4, kBetweenEightRows = 1024 >> 4, kSwizzled = 1;
  return (at & 0x3ffff) >> 4 | kBetweenPanels << 16 | kBetweenEightRows << 32 | kSwizzled << 62;
}

#ifdef __CUDACC__
  #define FT_32_REGISTERS                                                     \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
  #define FT_64_REGISTERS                                                              \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
  #define FT_128_REGISTERS                                                                       \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                    \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "           \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "           \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "           \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "           \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "     \
    "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, " \
    "%126, %127}"
  #define FT_ROW(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
  #define FT_8_ROWS(d, n)                                                                                   \
    FT_ROW(d, n), FT_ROW(d, n + 1), FT_ROW(d, n + 2), FT_ROW(d, n + 3), FT_ROW(d, n + 4), FT_ROW(d, n + 5), \
        FT_ROW(d, n + 6), FT_ROW(d, n + 7)
  #define FT_PRODUCT(type, columns) "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " "
  // Operands are numbered in order: d's registers come first, so the next operand's number is the number of
  // d's registers.
  #define FT_MULTIPLY_GROUP(T, type)                                                                        \
    __device__ inline void multiply_group(T, float(&d)[8][4], std::uint64_t a, std::uint64_t b, bool add) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; " FT_PRODUCT(type, "64") FT_32_REGISTERS          \
                   ", %32, %33, p, 1, 1, 0, 0;}"                                                            \
                   : FT_8_ROWS(d, 0)                                                                        \
                   : "l"(a), "l"(b), "r"(int{add}));                                                        \
    }                                                                                                       \
    template <bool b_down>                                                                                  \
    __device__ void multiply_group(T, float(&d)[8][4], const unsigned(&a)[4], std::uint64_t b, bool add) {  \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0; " FT_PRODUCT(type, "64") FT_32_REGISTERS          \
                   ", {%32, %33, %34, %35}, %36, p, 1, 1, %38;}"                                            \
                   : FT_8_ROWS(d, 0)                                                                        \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(int{b_down}));  \
    }                                                                                                       \
    template <bool b_down>                                                                                  \
    __device__ void multiply_group(T, float(&d)[16][4], const unsigned(&a)[4], std::uint64_t b, bool add) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %69, 0; " FT_PRODUCT(type, "128") FT_64_REGISTERS         \
                   ", {%64, %65, %66, %67}, %68, p, 1, 1, %70;}"                                            \
                   : FT_8_ROWS(d, 0), FT_8_ROWS(d, 8)                                                       \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(int{b_down}));  \
    }                                                                                                       \
    template <bool a_down, bool b_down>                                                                     \
    __device__ void multiply_group(T, float(&d)[32][4], std::uint64_t a, std::uint64_t b, bool add) {       \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %130, 0; " FT_PRODUCT(type, "256") FT_128_REGISTERS       \
                   ", %128, %129, p, 1, 1, %131, %132;}"                                                    \
                   : FT_8_ROWS(d, 0), FT_8_ROWS(d, 8), FT_8_ROWS(d, 16), FT_8_ROWS(d, 24)                   \
                   : "l"(a), "l"(b), "r"(int{add}), "n"(int{a_down}), "n"(int{b_down}));                    \
    }
FT_MULTIPLY_GROUP(bf16, "bf16")
FT_MULTIPLY_GROUP(f16, "f16")
  #undef FT_MULTIPLY_GROUP
  #undef FT_PRODUCT
  #undef FT_8_ROWS
  #undef FT_ROW
  #undef FT_128_REGISTERS
  #undef FT_64_REGISTERS
  #undef FT_32_REGISTERS

template <int kN>
__device__ void settle(float (&d)[kN][4]) {
  #pragma unroll
  for (int i = 0; i < 4 * kN; ++i) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}
template <int kN>
__device__ void settle(unsigned (&a)[kN][4]) {
  #pragma unroll
  for (int i = 0; i < 4 * kN; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}
__device__ inline void order_registers() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kUnderWay>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kUnderWay) : "memory");
}
__device__ inline void compute_first(float v) {
  constexpr float kNever = 1e30f;
  if (v == kNever) asm volatile("nanosleep.u32 0;");
}
__device__ inline void show_copies_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void meet_at(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void arrive_at(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
template <int kMost>
__device__ void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kMost));
}
template <int kMost>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMost));
}
#else
template <class T>
void multiply_group(T type, float (&d)[8][4], std::uint64_t a, std::uint64_t b, bool add) {
  cuda_on_cpu::multiply_group(type, d, 8, a, b, false, false, add);
}
template <bool a_down, bool b_down, class T>
void multiply_group(T type, float (&d)[32][4], std::uint64_t a, std::uint64_t b, bool add) {
  cuda_on_cpu::multiply_group(type, d, 32, a, b, a_down, b_down, add);
}
template <bool b_down, class T, int kN>
void multiply_group(T type, float (&d)[kN][4], const unsigned (&a)[4], std::uint64_t b, bool add) {
  cuda_on_cpu::multiply_group(type, d, kN, a, b, b_down, add);
}
template <class X, int kN>
void settle(X (&)[kN][4]) {}
inline void order_registers() {}
inline void commit_products() { cuda_on_cpu::commit_products(); }
template <int kUnderWay>
void wait_for_products() {
  cuda_on_cpu::wait_for_products(kUnderWay);
}
inline void compute_first(float) {}
inline void show_copies_to_products() { cuda_on_cpu::show_copies_to_products(); }
inline void meet_at(int barrier, int threads) { cuda_on_cpu::meet_at(barrier, threads); }
inline void arrive_at(int barrier, int threads) { cuda_on_cpu::arrive_at(barrier, threads); }
template <int kMost>
void give_up_registers() {}
template <int kMost>
void take_registers() {}
#endif

// Start of panels in shared memory, a multiple of 1024 bytes: launches request kSpare more bytes.
constexpr unsigned kSpare = 1023;
__device__ inline unsigned shared_panels() {
  return (shared_address(&shared_memory<unsigned char>()) + kSpare) & ~kSpare;
}

// Offsets of an operand's descriptor: k times 16 columns, and k times 16 rows.
__device__ inline std::uint64_t right_by(int k) {
  return (static_cast<unsigned>(k / 4) * kPanelBytes + static_cast<unsigned>(k % 4 * 32)) >> 4;
}
__device__ inline std::uint64_t down_by(int k) {
  return static_cast<unsigned>(k) * kTileBytes<kDepth, kPanelColumns> >> 4;
}

// A left operand (64, kColumns): in panels, or in registers while it is used.
template <int kColumns>
struct InPanels {
  unsigned tile;
};
template <int kColumns>
struct InRegisters {
  unsigned of[kColumns / kDepth][4];
  explicit __device__ InRegisters(unsigned tile) {
    const Places<kPanelColumns> down = Places<kPanelColumns>::down();
    const unsigned own = tile + threadIdx.x / 32 % 4 * kTileBytes<16, kPanelColumns>;
#pragma unroll
    for (int k = 0; k < kColumns / kDepth; ++k)
      load_matrices(of[k], own + static_cast<unsigned>(k / 4) * kPanelBytes + down[k % 4]);
  }
};

// Begins d (64, 64) = a (64, kColumns) times the transpose of b (64, kColumns), which is in panels; with
// `adds` d += that product.
template <class T, bool adds = false, int kColumns>
__device__ void begin_scores(float (&d)[8][4], const InRegisters<kColumns>& a, unsigned b) {
#pragma unroll
  for (int k = 0; k < kColumns / kDepth; ++k)
    multiply_group<false>(T{}, d, a.of[k], operand(b) + right_by(k), adds || k > 0);
}
template <class T, bool adds = false, int kColumns>
__device__ void begin_scores(float (&d)[8][4], const InPanels<kColumns>& a, unsigned b) {
#pragma unroll
  for (int k = 0; k < kColumns / kDepth; ++k)
    multiply_group(T{}, d, operand(a.tile) + right_by(k), operand(b) + right_by(k), adds || k > 0);
}
// Begins d (64, 8 kN) += p (64, 64) b (64, 8 kN); b is in panels.
template <class T, int kN>
__device__ void begin_sum(float (&d)[kN][4], const unsigned (&p)[4][4], unsigned b) {
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply_group<true>(T{}, d, p[k], operand(b) + down_by(k), true);
}

// Scores rounded to T, as a left operand.
template <class T>
__device__ void round_all(unsigned (&a)[4][4], const float (&p)[1][8][4]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float(&pair)[4] = p[0][2 * (i / 4) + i % 4 / 2];
    a[i / 4][i % 4] = pair_of(T{}, pair[2 * (i % 2)], pair[2 * (i % 2) + 1]);
  }
}

}  // namespace ft::cuda
