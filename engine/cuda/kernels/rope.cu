// Rotary positions, in place: a thread turns eight pairs (i, i + R/2) of one head.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

template <class T>
struct Call {
  Rows<T> x;
  const float *cos, *sin;
  const std::int32_t* at;
  i64 rows, positions;
  int heads, head_width, half;
  float sign;
  bool wide;
  std::int32_t* wrong;
};

template <class T>
__global__ void __launch_bounds__(256) rotate(Call<T> c) {
  const int packs = (c.half + kPack - 1) / kPack;  // of a head
  const int mine = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (mine >= c.heads * packs) return;
  const int head = mine / packs, i = mine % packs * kPack;
  const Pack pack = pack_at(i, c.half, c.wide);
  for (i64 row = blockIdx.y; row < c.rows; row += gridDim.y) {
    const i64 position = c.at[row];
    if (position < 0 || position >= c.positions) {
      *c.wrong = static_cast<std::int32_t>(Wrong::position);
      continue;
    }
    T* p = c.x.at(row, static_cast<i64>(head) * c.head_width + i);
    float x[kPack], y[kPack], cos[kPack], sin[kPack];
    load(x, p, pack);
    load(y, p + c.half, pack);
    load(cos, c.cos + position * c.half + i, pack);
    load(sin, c.sin + position * c.half + i, pack);
    for (int j = 0; j < kPack; ++j) {
      const float a = x[j], b = y[j], s = sin[j] * c.sign;
      x[j] = a * cos[j] - b * s;
      y[j] = b * cos[j] + a * s;
    }
    store(p, x, pack);
    store(p + c.half, y, pack);
  }
}

}  // namespace

void compute(const op::Rope& op, const Queue& queue) {
  const View x = view_of(op.x);
  if (x.rows == 0 || x.cols == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    const View cos = view_of(op.cos), sin = view_of(op.sin);
    const i64 half = cos.cols, heads = x.cols / op.head_width, packs = heads * ceil_div(half, kPack);
    const View halves{x.data, x.type, 2, half, half}, all{x.data, x.type, 2, op.head_width, op.head_width};
    const unsigned threads = at_most(ceil_div(packs, 32) * 32, 256);
    launch("rope",
           {queue.stream, dim3(static_cast<unsigned>(ceil_div(packs, threads)), at_most(x.rows, kMostGridY)),
            threads},
           rotate<T>,
           Call<T>{Rows<T>(x), data_of<const float>(op.cos), data_of<const float>(op.sin),
                   data_of<const std::int32_t>(op.positions), x.rows, cos.rows, static_cast<int>(heads),
                   static_cast<int>(op.head_width), static_cast<int>(half), op.sign,
                   wide({x, halves, all, cos, sin}), queue.wrong});
  });
}

}  // namespace ft::cuda
