// Magnitudes of a matrix's rows, columns rescaled by them, gathered by number, and folded; products of single
// elements, and elements at numbered places.
#include "engine/cuda/kernels/columns.cuh"
#include "engine/cuda/kernels/each_pack.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

template <class T>
struct Magnitudes {
  float *scale, *per_norm;
  const float *magnitude, *squares;
  Rows<T> b;
  Rows<float> p;
  i64 n, rank;
};

// Computes a row per thread.
template <class T>
__global__ void __launch_bounds__(128) magnitudes(Magnitudes<T> m) {
  const i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= m.n) return;
  float sum = m.squares[i];
  for (i64 k = 0; k < m.rank; ++k) sum += widened(*m.b.at(i, k)) * *m.p.at(k, i);
  const float r = 1 / sqrtf(sum);
  m.per_norm[i] = r;
  m.scale[i] = m.magnitude[i] * r;
}

// View of a vector as a matrix whose rows are all the same.
View each_row_is(const Tensor& v, i64 rows) { return {v.data, v.dtype, rows, v.numel(), 0}; }

template <class T>
struct Scaled {
  Rows<T> y, x, bias;
  Rows<float> scale;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack], s[kPack], b[kPack] = {};
    load(v, x.at(row, column), pack);
    load(s, scale.at(row, column), pack);
    if (bias.data) load(b, bias.at(row, column), pack);
    for (int j = 0; j < kPack; ++j) v[j] = v[j] * s[j] + b[j];
    store(y.at(row, column), v, pack);
  }
};

template <class T>
struct Dots {
  Rows<T> a, b;
  const float* scale;
  bool wide;
  __device__ void operator()(float (&v)[kPack], i64 row, i64 column, Pack pack) const {
    float w[kPack];
    load(v, a.at(row, column), pack);
    load(w, b.at(row, column), pack);
    for (int j = 0; j < kPack; ++j) v[j] = j < pack.count ? v[j] * w[j] * scale[column + j] : 0;
  }
};

// `column` counts all elements if the operands are one long row.
template <class T>
struct Gathered {
  Rows<T> y, x;
  const std::int32_t* columns;
  i64 cols, limit;
  std::int32_t* wrong;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    for (int j = 0; j < pack.count; ++j) {
      const i64 r = row + (column + j) / cols, c = (column + j) % cols;
      const std::int32_t from = columns[c];
      if (from < 0 || from >= limit)
        *wrong = static_cast<std::int32_t>(Wrong::column);
      else
        *y.at(r, c) = *x.at(r, from);
    }
  }
};

// Columns j of `wide` belong to column (first + j) mod n of `narrow`.
template <class N, class W>
struct Folded {
  Rows<N> narrow;
  Rows<W> wide;
  i64 n, first, cols;  // first < n
};

// Computes an element of the narrow tensor per thread: neighbours read neighbours.
template <class T>
__global__ void __launch_bounds__(256) fold(Folded<T, T> f, i64 elements) {
  for (i64 e = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; e < elements;
       e += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 row = e / f.n, k = e % f.n;
    float sum = 0;
    for (i64 j = k < f.first ? k - f.first + f.n : k - f.first; j < f.cols; j += f.n)
      sum += widened(*f.wide.at(row, j));
    from_float(*f.narrow.at(row, k), sum);
  }
}

// `column` counts all elements if the operand is one long row.
template <class N, class W>
struct Unfolded {
  Folded<N, W> f;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    load(v, f.wide.at(row, column), pack);
    for (int j = 0; j < pack.count; ++j) {
      const i64 r = row + (column + j) / f.cols, c = (column + j) % f.cols;
      v[j] += widened(*f.narrow.at(r, (f.first + c) % f.n));
    }
    store(f.wide.at(row, column), v, pack);
  }
};

// The elements of a matrix whose rows and columns are listed.
template <class T>
struct Places {
  Rows<T> matrix;
  i64 rows, cols;
  const std::int32_t *row, *column;
  i64 count;
  std::int32_t* wrong;
  // Calls f(i, the element) for the thread's places.
  template <class F>
  __device__ void each(F f) const {
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += static_cast<i64>(gridDim.x) * blockDim.x) {
      const std::int32_t r = row[i], c = column[i];
      if (r < 0 || r >= rows || c < 0 || c >= cols)
        *wrong = static_cast<std::int32_t>(Wrong::element);
      else
        f(i, *matrix.at(r, c));
    }
  }
};

template <class T>
__global__ void __launch_bounds__(256) scatter(Places<T> places, const T* x) {
  places.each([=](i64 i, T& element) { element = x[i]; });
}
__global__ void __launch_bounds__(256) gather(Places<float> places, float* dx) {
  places.each([=](i64 i, const float& element) { dx[i] += element; });
}

template <class T, class X>
struct Product {
  Rows<T> y;
  Rows<X> x;
  Rows<T> w;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack], by[kPack];
    load(v, x.at(row, column), pack);
    load(by, w.at(row, column), pack);
    for (int j = 0; j < kPack; ++j) v[j] *= by[j];
    store(y.at(row, column), v, pack);
  }
};

// `column` counts all elements if the operands are one long row.
template <class T, class X>
struct TurnedProduct {
  Product<T, X> p;
  i64 cols;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    load(v, p.x.at(row, column), pack);
    for (int j = 0; j < pack.count; ++j)
      v[j] *= widened(*p.w.at((column + j) % cols, row + (column + j) / cols));
    store(p.y.at(row, column), v, pack);
  }
};

template <class T>
Places<T> places_of(const View& matrix, const Tensor& at, const Queue& queue) {
  const View places = view_of(at);
  const auto* rows = data_of<const std::int32_t>(at);
  return {Rows<T>(matrix), matrix.rows, matrix.cols, rows, rows + places.stride, places.cols, queue.wrong};
}

// A launch of a thread for each element, or of as many as there may be.
Launch by_thread(const Queue& queue, i64 elements) {
  return {queue.stream, dim3(at_most(ceil_div(elements, 256), kMostGridX)), 256};
}

}  // namespace

void multiply_elements(cudaStream_t stream, const View& y, const View& x, const View& w, bool turned) {
  const auto run = [&](auto t, auto from) {
    using T = decltype(t);
    using X = decltype(from);
    const Product<T, X> product{Rows<T>(y), Rows<X>(x), Rows<T>(w)};
    if (turned)
      run_each_pack("hadamard", stream, {y, x}, TurnedProduct<T, X>{product, y.cols});
    else
      run_each_pack("hadamard", stream, {y, x, w}, product);
  };
  with_float(y.type, [&](auto t) { x.type == y.type ? run(t, t) : run(t, 0.0f); });
}

void compute(const op::Magnitudes& op, const Queue& queue) {
  const View b = view_of(op.b), p = view_of(op.p);
  if (b.rows == 0) return;
  with_float(b.type, [&](auto t) {
    using T = decltype(t);
    launch("magnitudes", {queue.stream, dim3(static_cast<unsigned>(ceil_div(b.rows, 128))), 128},
           magnitudes<T>,
           Magnitudes<T>{data_of<float>(op.scale), data_of<float>(op.per_norm),
                         data_of<const float>(op.magnitude), data_of<const float>(op.squares), Rows<T>(b),
                         Rows<float>(p), b.rows, b.cols});
  });
}

void compute(const op::ScaleColumns& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x), scale = each_row_is(op.scale, y.rows),
             bias = each_row_is(op.bias, y.rows);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const Scaled<T> body{Rows<T>(y), Rows<T>(x), Rows<T>(bias), Rows<float>(scale)};
    if (bias.data)
      run_each_pack("scale_columns", queue.stream, {y, x, scale, bias}, body);
    else
      run_each_pack("scale_columns", queue.stream, {y, x, scale}, body);
  });
}

void compute(const op::ColumnDots& op, const Queue& queue) {
  const View a = view_of(op.a), b = view_of(op.b);
  with_float(a.type, [&](auto t) {
    using T = decltype(t);
    add_column_sums(queue.stream, data_of<float>(op.y), a,
                    Dots<T>{Rows<T>(a), Rows<T>(b), data_of<const float>(op.scale), wide({a, b})});
  });
}

void compute(const op::GatherColumns& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    run_each_pack("gather_columns", queue.stream, {y},
                  Gathered<T>{Rows<T>(y), Rows<T>(x), data_of<const std::int32_t>(op.columns), y.cols, x.cols,
                              queue.wrong});
  });
}

void compute(const op::ScatterElements& op, const Queue& queue) {
  with_float(op.y.dtype, [&](auto t) {
    using T = decltype(t);
    const Places<T> places = places_of<T>(view_of(op.y), op.at, queue);
    if (places.count > 0)
      launch("scatter_elements", by_thread(queue, places.count), scatter<T>, places, data_of<const T>(op.x));
  });
}

void compute(const op::ScatterElementsGrad& op, const Queue& queue) {
  const Places<float> places = places_of<float>(view_of(op.dy), op.at, queue);
  if (places.count > 0)
    launch("scatter_elements_grad", by_thread(queue, places.count), gather, places, data_of<float>(op.dx));
}

void compute(const op::FoldColumns& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  const i64 elements = y.rows * y.cols;
  if (elements == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    launch("fold_columns", by_thread(queue, elements), fold<T>,
           Folded<T, T>{Rows<T>(y), Rows<T>(x), y.cols, op.first % y.cols, x.cols}, elements);
  });
}

void compute(const op::FoldColumnsGrad& op, const Queue& queue) {
  const View dx = view_of(op.dx), dy = view_of(op.dy);
  const auto unfold = [&](auto narrow, auto wide) {
    using N = decltype(narrow);
    using W = decltype(wide);
    run_each_pack("fold_columns_grad", queue.stream, {dx},
                  Unfolded<N, W>{{Rows<N>(dy), Rows<W>(dx), dy.cols, op.first % dy.cols, dx.cols}});
  };
  with_float(dy.type,
             [&](auto narrow) { dx.type == dy.type ? unfold(narrow, narrow) : unfold(narrow, 0.0f); });
}

}  // namespace ft::cuda
