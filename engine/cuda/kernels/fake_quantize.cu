// Matrices with the values that they have after they are stored in blocks of few bits: a thread has a block.
// Compiled without fused multiply-adds, which would change codes.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

constexpr int kBlock = kBlockOfCodes, kPacks = kBlock / kPack;

template <class Y, class X, class Codes>
__global__ void __launch_bounds__(256) fake_quantize(Rows<Y> y, Rows<X> x, i64 rows, i64 cols, bool wide) {
  const i64 column = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kBlock;
  if (column >= cols) return;
  for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
    float v[kPacks][kPack];
    float furthest = 0, poison = 0;
    for (int p = 0; p < kPacks; ++p) {
      load(v[p], x.at(row, column + p * kPack), {kPack, wide});
      for (const float e : v[p]) {
        if (fabsf(e) > fabsf(furthest)) furthest = e;
        poison += e * 0;  // NaN if an element is not finite
      }
    }
    const float d = Codes::scale(furthest), inverse = block_inverse(d), stored = stored_scale(d);
    for (int p = 0; p < kPacks; ++p) {
      for (float& e : v[p]) e = poison == 0 ? Codes::value(Codes::code(e * inverse), stored) : poison;
      store(y.at(row, column + p * kPack), v[p], {kPack, wide});
    }
  }
}

}  // namespace

void compute(const op::FakeQuantize& op, const Queue& queue) {
  View y = view_of(op.y), x = view_of(op.x);
  if (y.rows == 0 || y.cols == 0) return;
  if (dense(y) && dense(x)) y.rows = x.rows = 1, y.cols = x.cols = y.stride = x.stride = op.y.numel();
  const i64 blocks = y.cols / kBlock;
  const unsigned threads = at_most(ceil_div(blocks, 32) * 32, 256);
  const Launch how{queue.stream,
                   dim3(static_cast<unsigned>(ceil_div(blocks, threads)), at_most(y.rows, kMostGridY)),
                   threads};
  const auto run = [&](auto to, auto from, auto codes) {
    using Y = decltype(to);
    using X = decltype(from);
    launch("fake_quantize", how, fake_quantize<Y, X, decltype(codes)>, Rows<Y>(y), Rows<X>(x), y.rows, y.cols,
           wide({y, x}));
  };
  with_codes(op.format, [&](auto codes) {
    with_float(y.type, [&](auto to) { with_float(x.type, [&](auto from) { run(to, from, codes); }); });
  });
}

}  // namespace ft::cuda
