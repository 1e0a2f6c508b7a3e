// Converts data to the layouts of cuDNN's attention, and back: a number for each row of each head, padded to
// the longest sequence; a bias by distance, expanded to all pairs.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

// Copies 256 rows of a sequence in one head per block.
template <bool kInto>
__global__ void __launch_bounds__(256) move_rows(PaddedRows r) {
  const i64 row = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x, head = blockIdx.y;
  if (row >= r.bound) return;
  for (i64 s = blockIdx.z; s < r.batch; s += gridDim.z) {
    float& padded = r.padded[(s * gridDim.y + head) * r.bound + row];
    const bool there = row < r.count[s];
    float* packed = r.packed + head * r.rows + r.first[s] + row;
    if (kInto)
      padded = there ? *packed : 0;
    else if (there)
      *packed = padded;
  }
}

template <bool kInto>
void run(cudaStream_t stream, const PaddedRows& r) {
  const dim3 grid(static_cast<unsigned>(ceil_div(r.bound, 256)), static_cast<unsigned>(r.heads),
                  at_most(r.batch, kMostGridY));
  launch("padded rows", {stream, grid, 256}, move_rows<kInto>, r);
}

template <class T>
struct Pairs {
  T* y;
  const T* bias;
  i64 stride, reach, rows, keys;
};

// A block expands some keys of a query row in one head; each thread makes a pack.
template <class T>
__global__ void __launch_bounds__(256) all_pairs(Pairs<T> p) {
  const i64 key = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kPack, head = blockIdx.z;
  if (key >= p.keys) return;
  for (i64 row = blockIdx.y; row < p.rows; row += gridDim.y) {
    float v[kPack];
    for (int j = 0; j < kPack; ++j) {
      i64 distance = key + j - row;
      distance = distance < -p.reach ? -p.reach : distance > p.reach ? p.reach : distance;
      v[j] = widened(p.bias[(p.reach + distance) * p.stride + head]);
    }
    store(p.y + (head * p.rows + row) * p.keys + key, v, pack_at(key, p.keys, p.keys % kPack == 0));
  }
}

}  // namespace

void pad_rows(cudaStream_t stream, const PaddedRows& r) { run<true>(stream, r); }
void unpad_rows(cudaStream_t stream, const PaddedRows& r) { run<false>(stream, r); }

void bias_of_pairs(cudaStream_t stream, void* y, const View& bias, std::int64_t rows, std::int64_t keys) {
  with_float(bias.type, [&](auto t) {
    using T = decltype(t);
    const Pairs<T> p{
        static_cast<T*>(y), static_cast<const T*>(bias.data), bias.stride, bias.rows / 2, rows, keys};
    const unsigned threads = row_threads(keys, 256);
    const dim3 grid(static_cast<unsigned>(ceil_div(keys, static_cast<i64>(threads) * kPack)),
                    at_most(rows, kMostGridY), static_cast<unsigned>(bias.cols));
    launch("bias of pairs", {stream, grid, threads}, all_pairs<T>, p);
  });
}

}  // namespace ft::cuda
