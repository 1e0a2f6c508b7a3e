// Building blocks of kernels: eight elements at a time in 16-byte accesses, sums over warps and blocks,
// shared memory, launches. Kernels get all their shared memory through shared_memory(); the launch states its
// size.
#pragma once
#include <initializer_list>

#include "engine/cuda/kernels/mma.cuh"
#include "engine/cuda/kernels/queue.h"
#include "engine/cuda/shared_memory.h"
#include "engine/cuda/status.h"

namespace ft::cuda {

using i64 = std::int64_t;

// ---- memory
template <class T>
__device__ inline T& shared_memory() {
  extern __shared__ __align__(128) unsigned char block_memory[];
  return *reinterpret_cast<T*>(block_memory);
}

constexpr int kPack = 8;  // elements that a thread works on at a time

// Number of elements in a pack, and true if 16-byte accesses can reach them.
struct Pack {
  int count;
  bool wide;
};

// Converts two elements of 16 bits, the first one in the low half of the word.
__device__ inline void widen_pair(bf16, float* v, unsigned word) {
  v[0] = __builtin_bit_cast(float, word << 16);
  v[1] = __builtin_bit_cast(float, word & 0xffff0000u);
}
__device__ inline void widen_pair(f16, float* v, unsigned word) {
  v[0] = widened(f16{static_cast<std::uint16_t>(word)});
  v[1] = widened(f16{static_cast<std::uint16_t>(word >> 16)});
}

// A pack in the format of memory, at a multiple of 16 bytes.
template <class T>
struct Words {
  uint4 of[sizeof(T) / 2];
  __device__ void load(const T* p) {
    for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) of[i] = reinterpret_cast<const uint4*>(p)[i];
  }
  __device__ void widen(float (&v)[kPack]) const {
    for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) {
      const unsigned words[] = {of[i].x, of[i].y, of[i].z, of[i].w};
      for (int j = 0; j < 4; ++j) {
        if constexpr (sizeof(T) == 4)
          v[4 * i + j] = __builtin_bit_cast(float, words[j]);
        else
          widen_pair(T{}, v + 2 * j, words[j]);
      }
    }
  }
};

template <class T>
__device__ inline void load(float (&v)[kPack], const T* p, Pack pack) {
  if (pack.wide && pack.count == kPack) {
    Words<T> words;
    words.load(p);
    words.widen(v);
  } else {
    for (int j = 0; j < kPack; ++j) v[j] = j < pack.count ? widened(p[j]) : 0;
  }
}

__device__ inline unsigned bits_of(float v) { return __builtin_bit_cast(unsigned, v); }

template <class T>
__device__ inline void store(T* p, const float (&v)[kPack], Pack pack) {
  if (pack.wide && pack.count == kPack) {
    for (int j = 0; j < kPack; j += static_cast<int>(16 / sizeof(T))) {
      if constexpr (sizeof(T) == 4)
        store_16(p + j, {bits_of(v[j]), bits_of(v[j + 1]), bits_of(v[j + 2]), bits_of(v[j + 3])});
      else
        store_16(p, {pair_of(T{}, v[0], v[1]), pair_of(T{}, v[2], v[3]), pair_of(T{}, v[4], v[5]),
                     pair_of(T{}, v[6], v[7])});
    }
  } else {
    for (int j = 0; j < kPack; ++j)
      if (j < pack.count) round_to(p[j], v[j]);
  }
}

// Rows of elements of one type.
template <class T>
struct Rows {
  T* data;
  i64 stride;
  explicit Rows(const View& v) : data(static_cast<T*>(v.data)), stride(v.stride) {}
  __device__ T* at(i64 row, i64 column = 0) const { return data + row * stride + column; }
};

__device__ inline Pack pack_at(i64 column, i64 cols, bool wide) {
  return {cols - column < kPack ? static_cast<int>(cols - column) : kPack, wide};
}

// ---- sums and maxima, with the same result in every thread that takes part
template <class T>
__device__ inline T warp_sum(T v) {
  for (int with = 16; with > 0; with /= 2) v += __shfl_xor_sync(~0u, v, with);
  return v;
}
__device__ inline float warp_largest(float v) {
  for (int with = 16; with > 0; with /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, with));
  return v;
}
// of: one place for each warp of the block, in shared memory; may be used again immediately.
template <class T>
__device__ inline T block_sum(T v, T* of) {
  v = warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of[threadIdx.x / 32] = v;
  __syncthreads();
  return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? of[threadIdx.x % 32] : T{0});
}
__device__ inline float block_largest(float v, float* of) {
  v = warp_largest(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of[threadIdx.x / 32] = v;
  __syncthreads();
  return warp_largest(of[threadIdx.x % 32 < blockDim.x / 32 ? threadIdx.x % 32 : 0]);
}

// ---- launches, on the host
struct Launch {
  cudaStream_t stream;
  dim3 grid;
  unsigned threads;        // of a block: complete warps
  std::size_t shared = 0;  // bytes
  unsigned cluster = 1;  // number of blocks that run together (tma.cuh), on compute capability 9.0 and later
};

template <class... Parameters, class... Arguments>
void launch(const char* what, const Launch& how, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = how.grid;
  config.blockDim = dim3(how.threads);
  config.dynamicSmemBytes = how.shared;
  config.stream = how.stream;
  cudaLaunchAttribute cluster{};
  if (how.cluster > 1) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = how.cluster;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  if (how.shared > 48 << 10) allow_shared_memory(reinterpret_cast<const void*>(kernel), how.shared, what);
  check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), what);
}

inline i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
inline unsigned at_most(i64 n, i64 most) { return static_cast<unsigned>(n < most ? n : most); }
constexpr i64 kMostGridY = 65535, kMostGridX = 0x7fffffff;

inline bool dense(const View& v) { return v.stride == v.cols || v.rows <= 1; }
// True if every row begins at a multiple of 16 bytes.
inline bool wide(const View& v) {
  const i64 size = size_of(v.type);
  return reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0 && (v.rows <= 1 || v.stride * size % 16 == 0);
}
inline bool wide(std::initializer_list<View> all) {
  for (const View& v : all)
    if (v.data && !wide(v)) return false;
  return true;
}

// Number of threads of a block that works on one row, one pack per thread at a time.
inline unsigned row_threads(i64 cols, i64 most) {
  return at_most(ceil_div(ceil_div(cols, kPack), 32) * 32, most);
}

// Calls f(T{}) with the element type: f32, bf16 or f16.
template <class F>
void with_float(DType type, F f) {
  if (type == DType::bf16)
    f(bf16{});
  else if (type == DType::f16)
    f(f16{});
  else
    f(float{});
}

}  // namespace ft::cuda
