// Elementwise kernels: a body is called for every pack of every row or, if all operands are dense, of one
// long row.
#pragma once
#include "engine/cuda/kernels/device.cuh"

namespace ft::cuda {

// Calls body(row, column, pack); for dense operands `column` counts all elements.
template <class Body>
__global__ void __launch_bounds__(256) each_pack(i64 rows, i64 cols, bool wide, Body body) {
  const i64 column = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  if (column >= cols) return;
  const Pack pack = pack_at(column, cols, wide);
  for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
    // repeated as constants, so that loads follow each other without branches
    if (pack.wide && pack.count == kPack)
      body(row, column, Pack{kPack, true});
    else
      body(row, column, pack);
  }
}

template <class Body>
void run_each_pack(const char* what, cudaStream_t stream, i64 rows, i64 cols, bool wide, const Body& body) {
  if (rows == 0 || cols == 0) return;
  const unsigned threads = row_threads(cols, 256);
  const i64 blocks = ceil_div(cols, static_cast<i64>(threads) * kPack);
  launch(what, {stream, dim3(static_cast<unsigned>(blocks), at_most(rows, kMostGridY)), threads},
         each_pack<Body>, rows, cols, wide, body);
}

// all: operands of the body; the first one has the shape.
template <class Body>
void run_each_pack(const char* what, cudaStream_t stream, std::initializer_list<View> all, const Body& body) {
  i64 rows = all.begin()->rows, cols = all.begin()->cols;
  bool flat = true;
  for (const View& v : all) flat = flat && dense(v);
  if (flat) {
    cols *= rows;
    rows = 1;
  }
  run_each_pack(what, stream, rows, cols, wide(all), body);
}

}  // namespace ft::cuda
