// Kernels with one block per row that read the row once: a thread keeps its elements in registers, in the
// format of memory, while the block sums over the row. All loads begin before the first sum, and blocks are
// small, so that many rows share a multiprocessor.
#pragma once
#include <type_traits>

#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/row_blocks.cuh"

namespace ft::cuda {

constexpr int kRowThreads = 512;  // most threads of a block

// A thread's packs of a stretch of a row; neighbouring packs belong to different threads.
// kWide: rows consist of complete packs that 16-byte accesses can reach. A kernel for both kinds would be
// slower: the compiler would unpack each word as it arrives, and so wait for each load.
template <class T, bool kWide, int kBytes = 64>
struct Kept {
  static constexpr int kPacks = kWide ? kBytes / kPack / static_cast<int>(sizeof(T)) : 1;
  std::conditional_t<kWide, Words<T>, float[kPack]> of[kPacks];

  // Number of columns that the block keeps at a time.
  static __device__ i64 stretch() { return i64{kPacks} * kPack * blockDim.x; }
  // The first column of pack p.
  static __device__ i64 column(i64 stretch, int p) {
    return stretch + (static_cast<i64>(p) * blockDim.x + threadIdx.x) * kPack;
  }
  static __device__ Pack pack_at(i64 column, i64 cols) {
    return kWide ? Pack{kPack, true} : ft::cuda::pack_at(column, cols, false);
  }

  // Number of elements in pack p.
  static __device__ int count(i64 stretch, int p, i64 cols) {
    const i64 rest = cols - column(stretch, p);
    return rest >= kPack ? kPack : rest < 0 || kWide ? 0 : static_cast<int>(rest);
  }

  // Loads the stretch, with zeros beyond the row's end.
  __device__ void load(const T* row, i64 stretch, i64 cols) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const i64 at = column(stretch, p);
      if constexpr (kWide) {
        of[p] = {};
        if (at < cols) of[p].load(row + at);
      } else {
        ft::cuda::load(of[p], row + at, {count(stretch, p, cols), false});
      }
    }
  }
  __device__ void widen(float (&v)[kPack], int p) const {
    if constexpr (kWide)
      of[p].widen(v);
    else
      for (int j = 0; j < kPack; ++j) v[j] = of[p][j];
  }
};

// Launches the wide or the narrow kernel, which keep kBytes of a row in a thread. wide: every row begins at a
// multiple of 16 bytes.
template <class T, int kBytes = 64, class Call>
void keep_each_row(const char* what, const Queue& queue, const View& x, bool wide, void (*wide_kernel)(Call),
                   void (*narrow_kernel)(Call), const Call& call) {
  const bool whole = wide && x.cols % kPack == 0;
  const i64 packs = whole ? Kept<T, true, kBytes>::kPacks : 1, warps = ceil_div(x.cols, packs * kPack * 32);
  launch(
      what,
      {queue.stream, dim3(at_most(x.rows, kMostGridX)), at_most(32 * warps, kRowThreads), sizeof(RowShared)},
      whole ? wide_kernel : narrow_kernel, call);
}

}  // namespace ft::cuda
