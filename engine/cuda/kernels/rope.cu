// Rotary positions, in place: a thread rotates eight pairs of four heads, which it loads at once.
#include <algorithm>

#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

template <class T>
struct Call {
  Rows<T> x, more;  // blocks with z = 1 rotate `more`
  const float *cos, *sin;
  const std::int32_t* at;
  i64 rows, positions;
  int heads, more_heads, head_width, half;
  float sign;
  std::int32_t* wrong;

  __device__ Rows<T> own() const { return blockIdx.z == 0 ? x : more; }
  __device__ int own_heads() const { return blockIdx.z == 0 ? heads : more_heads; }
};

constexpr int kHeads = 4;  // heads of a thread: the first of each quarter, the second of each, ...

// kWide: halves of heads are complete packs that 16-byte accesses can reach.
template <class T, bool kWide>
__global__ void __launch_bounds__(256) rotate(Call<T> c) {
  const Rows<T> x_rows = c.own();
  const int heads = c.own_heads();
  const int packs = (c.half + kPack - 1) / kPack, apart = (heads + kHeads - 1) / kHeads;
  const int mine = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (mine >= apart * packs) return;
  const int head = mine / packs, i = mine % packs * kPack;
  const Pack pack = kWide ? Pack{kPack, true} : pack_at(i, c.half, false);
  for (i64 row = blockIdx.y; row < c.rows; row += gridDim.y) {
    T* const p = x_rows.at(row, static_cast<i64>(head) * c.head_width + i);
    const i64 next = static_cast<i64>(apart) * c.head_width;
    const auto there = [&](int h) { return head + h * apart < heads; };
    float x[kHeads][kPack], y[kHeads][kPack];
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      if (there(h)) {
        load(x[h], p + h * next, pack);
        load(y[h], p + h * next + c.half, pack);
      }
    const i64 position = c.at[row];
    if (position < 0 || position >= c.positions) {
      *c.wrong = static_cast<std::int32_t>(Wrong::position);
      continue;
    }
    float cos[kPack], sin[kPack];
    load(cos, c.cos + position * c.half + i, pack);
    load(sin, c.sin + position * c.half + i, pack);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (!there(h)) break;
      for (int j = 0; j < kPack; ++j) {
        const float a = x[h][j], b = y[h][j], s = sin[j] * c.sign;
        x[h][j] = a * cos[j] - b * s;
        y[h][j] = b * cos[j] + a * s;
      }
      store(p + h * next, x[h], pack);
      store(p + h * next + c.half, y[h], pack);
    }
  }
}

// A thread rotates the pairs (2 i, 2 i + 1) of a row, one after another.
template <class T>
__global__ void __launch_bounds__(256) rotate_neighbours(Call<T> c) {
  const Rows<T> x = c.own();
  const i64 pairs = static_cast<i64>(c.own_heads()) * c.half;
  for (i64 row = blockIdx.y; row < c.rows; row += gridDim.y) {
    const i64 position = c.at[row];
    if (position < 0 || position >= c.positions) {
      *c.wrong = static_cast<std::int32_t>(Wrong::position);
      continue;
    }
    for (i64 n = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; n < pairs;
         n += static_cast<i64>(gridDim.x) * blockDim.x) {
      const i64 i = n % c.half;
      T* const p = x.at(row, n / c.half * c.head_width + 2 * i);
      const float a = to_float(p[0]), b = to_float(p[1]), cos = c.cos[position * c.half + i],
                  sin = c.sin[position * c.half + i] * c.sign;
      from_float(p[0], a * cos - b * sin);
      from_float(p[1], b * cos + a * sin);
    }
  }
}

}  // namespace

void compute(const op::Rope& op, const Queue& queue) {
  const auto rotated = [&](const Tensor& t) {  // heads begin at the rotated part
    View v = view_of(t);
    v.data = static_cast<std::byte*>(v.data) + op.first * size_of(v.type);
    return v;
  };
  const View x = rotated(op.x), more = op.more ? rotated(op.more) : x;
  if (x.rows == 0 || x.cols == 0) return;
  const i64 heads = x.cols / op.head_width, more_heads = more.cols / op.head_width,
            most = std::max(heads, more_heads);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    const View cos = view_of(op.cos), sin = view_of(op.sin);
    const i64 half = cos.cols;
    const Call<T> call{Rows<T>(x),
                       Rows<T>(more),
                       data_of<const float>(op.cos),
                       data_of<const float>(op.sin),
                       data_of<const std::int32_t>(op.positions),
                       x.rows,
                       cos.rows,
                       static_cast<int>(heads),
                       static_cast<int>(more_heads),
                       static_cast<int>(op.head_width),
                       static_cast<int>(half),
                       op.sign,
                       queue.wrong};
    const unsigned rows = at_most(x.rows, kMostGridY), tensors = op.more ? 2 : 1;
    if (op.neighbours) {
      const unsigned threads = at_most(ceil_div(most * half, 32) * 32, 256);
      return launch("rope",
                    {queue.stream, dim3(at_most(ceil_div(most * half, threads), 8), rows, tensors), threads},
                    rotate_neighbours<T>, call);
    }
    const i64 all_threads = ceil_div(most, kHeads) * ceil_div(half, kPack);
    const auto in_packs = [&](const View& v) {
      const View halves{v.data, v.type, 2, half, half}, all{v.data, v.type, 2, op.head_width, op.head_width};
      return wide({v, halves, all});
    };
    const bool whole = half % kPack == 0 && in_packs(x) && in_packs(more) && wide({cos, sin});
    const unsigned threads = at_most(ceil_div(all_threads, 32) * 32, 256),
                   blocks = static_cast<unsigned>(ceil_div(all_threads, threads));
    launch("rope", {queue.stream, dim3(blocks, rows, tensors), threads},
           whole ? rotate<T, true> : rotate<T, false>, call);
  });
}

}  // namespace ft::cuda
