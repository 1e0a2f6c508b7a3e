// Products of blocks of columns with square matrices, and skew-symmetric matrices.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

constexpr int kGroup = 4;  // rows of y that a thread computes
constexpr i64 kRows = 64;  // rows that are summed before they are added to others

template <class T>
struct Blocks {
  Rows<T> y, x;
  Rows<float> b;
  i64 rows, cols, n, of_b;  // of y; rows and columns of b
  float diagonal;
};

// Computes an element of a few rows per thread.
template <class T>
__global__ void __launch_bounds__(256) multiply_blocks(Blocks<T> p, i64 items) {
  for (i64 item = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; item < items;
       item += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 row = item / p.cols * kGroup, column = item % p.cols;
    const i64 first = column - column % p.n, of_b = column % p.of_b;
    const int count = p.rows - row < kGroup ? static_cast<int>(p.rows - row) : kGroup;
    float sums[kGroup] = {};
    for (i64 k = 0; k < p.n; ++k) {
      const float by = *p.b.at(k, of_b);
      for (int i = 0; i < kGroup; ++i)
        if (i < count) sums[i] += widened(*p.x.at(row + i, first + k)) * by;
    }
    for (int i = 0; i < kGroup; ++i) {
      if (i >= count) continue;
      if (row + i == column - first) sums[i] += p.diagonal;
      round_to(*p.y.at(row + i, column), sums[i]);
    }
  }
}

template <class T>
struct Gradient {
  Rows<float> db;
  Rows<T> x, dy;
  i64 n, of_db, rows, cols;  // rows and columns of db; rows and columns of x
};

// Computes an element of db per thread.
template <class T>
__global__ void __launch_bounds__(256) gradient_of_blocks(Gradient<T> g, i64 elements) {
  for (i64 e = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; e < elements;
       e += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 k = e / g.of_db, column = e % g.of_db, block = column - column % g.n;
    float total = 0;
    for (i64 shift = 0; block + shift < g.cols; shift += g.of_db)
      for (i64 from = 0; from < g.rows; from += kRows) {
        const i64 end = from + kRows < g.rows ? from + kRows : g.rows;
        float sum = 0;
        for (i64 r = from; r < end; ++r)
          sum += widened(*g.x.at(r, block + shift + k)) * widened(*g.dy.at(r, column + shift));
        total += sum;
      }
    *g.db.at(k, column) += total;
  }
}

// Place above the diagonal of a matrix of n rows, in the order of rows; row < column.
__device__ inline i64 place(i64 n, i64 row, i64 column) {
  return row * (2 * n - row - 1) / 2 + column - row - 1;
}

__global__ void __launch_bounds__(256)
    make_skew(Rows<float> y, Rows<float> x, i64 n, i64 cols, float sign, i64 elements) {
  for (i64 e = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; e < elements;
       e += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 r = e / cols, j = e % cols / n, c = e % cols % n;
    float v = 0;
    if (c > r) v = sign * *x.at(j, place(n, r, c));
    if (c < r) v = -sign * *x.at(j, place(n, c, r));
    *y.at(r, j * n + c) = v;
  }
}

// Visits the elements of dy; only those above the diagonals have a place in dx.
__global__ void __launch_bounds__(256)
    skew_gradient(Rows<float> dx, Rows<float> dy, i64 n, i64 cols, i64 elements) {
  for (i64 e = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; e < elements;
       e += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 r = e / cols, j = e % cols / n, c = e % cols % n;
    if (c > r) *dx.at(j, place(n, r, c)) += *dy.at(r, j * n + c) - *dy.at(c, j * n + r);
  }
}

// A launch of a thread for each item, or of as many as there may be.
Launch by_thread(const Queue& queue, i64 items) {
  return {queue.stream, dim3(at_most(ceil_div(items, 256), kMostGridX)), 256};
}

}  // namespace

void compute(const op::BlockProducts& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x), b = view_of(op.b);
  const i64 items = ceil_div(y.rows, kGroup) * y.cols;
  if (items == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    launch("block_products", by_thread(queue, items), multiply_blocks<T>,
           Blocks<T>{Rows<T>(y), Rows<T>(x), Rows<float>(b), y.rows, y.cols, b.rows, b.cols, op.diagonal},
           items);
  });
}

void compute(const op::BlockProductsGrad& op, const Queue& queue) {
  const View db = view_of(op.db), x = view_of(op.x), dy = view_of(op.dy);
  const i64 elements = db.rows * db.cols;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    launch("block_products_grad", by_thread(queue, elements), gradient_of_blocks<T>,
           Gradient<T>{Rows<float>(db), Rows<T>(x), Rows<T>(dy), db.rows, db.cols, x.rows, x.cols}, elements);
  });
}

void compute(const op::SkewMatrices& op, const Queue& queue) {
  const View y = view_of(op.y);
  const i64 elements = y.rows * y.cols;
  launch("skew_matrices", by_thread(queue, elements), make_skew, Rows<float>(y), Rows<float>(view_of(op.x)),
         y.rows, y.cols, op.sign, elements);
}

void compute(const op::SkewMatricesGrad& op, const Queue& queue) {
  const View dy = view_of(op.dy);
  const i64 elements = dy.rows * dy.cols;
  launch("skew_matrices_grad", by_thread(queue, elements), skew_gradient, Rows<float>(view_of(op.dx)),
         Rows<float>(dy), dy.rows, dy.cols, elements);
}

}  // namespace ft::cuda
