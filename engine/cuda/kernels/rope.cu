// Rotary positions, in place: a thread turns eight pairs (i, i + D/2) of one head.
#include "engine/cuda/kernels/device.cuh"

namespace ft::cuda {
namespace {

template <class T>
struct Call {
  Rows<T> x;
  const float *cos, *sin;
  const std::int32_t* at;
  i64 rows, positions;
  int heads, half;
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
    T* p = c.x.at(row, static_cast<i64>(head) * 2 * c.half + i);
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

void rope(cudaStream_t stream, const Rope& c, std::int32_t* wrong) {
  if (c.x.rows == 0 || c.x.cols == 0) return;
  with_float(c.x.type, [&](auto t) {
    using T = decltype(t);
    const i64 half = c.head_width / 2, heads = c.x.cols / c.head_width, packs = heads * ceil_div(half, kPack);
    const View cos{const_cast<float*>(c.cos), DType::f32, c.positions, half, half};
    const View sin{const_cast<float*>(c.sin), DType::f32, c.positions, half, half};
    const View halves{c.x.data, c.x.type, 2, half, half};
    const unsigned threads = at_most(ceil_div(packs, 32) * 32, 256);
    launch("rope",
           {stream, dim3(static_cast<unsigned>(ceil_div(packs, threads)), at_most(c.x.rows, kMostGridY)),
            threads},
           rotate<T>,
           Call<T>{Rows<T>(c.x), c.cos, c.sin, c.at, c.x.rows, c.positions, static_cast<int>(heads),
                   static_cast<int>(half), c.sign, wide({c.x, halves, cos, sin}), wrong});
  });
}

}  // namespace ft::cuda
