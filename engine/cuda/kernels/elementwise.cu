// Fills, sums, conversions, factors, caps, dropout and noise.
#include "engine/cuda/kernels/drops.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

template <class T>
struct Fill {
  Rows<T> y;
  float value;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    for (float& x : v) x = value;
    store(y.at(row, column), v, pack);
  }
};

// x may also be a single row for all rows.
template <class Y, class X, class Drops>
struct Add {
  Rows<Y> y;
  Rows<X> x;
  Drops drops;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float a[kPack], b[kPack];
    load(a, y.at(row, column), pack);
    load(b, x.at(row, column), pack);
    drops.zero(a, row, column);
    for (int j = 0; j < kPack; ++j) a[j] = fmaf(a[j], drops.growth(), b[j]);
    store(y.at(row, column), a, pack);
  }
};

// x may also be a single row for all rows, with stride 0.
template <class Y, class X>
struct Cast {
  Rows<Y> y;
  Rows<X> x;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    load(v, x.at(row, column), pack);
    store(y.at(row, column), v, pack);
  }
};

template <class T>
struct Multiply {
  Rows<T> y, x;
  float factor;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    load(v, x.at(row, column), pack);
    for (float& one : v) one *= factor;
    store(y.at(row, column), v, pack);
  }
};

template <class T>
struct SoftCap {
  Rows<T> y, x;
  float cap, inverse;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    load(v, x.at(row, column), pack);
    for (float& one : v) one = cap * math::tanh_of(one * inverse);
    store(y.at(row, column), v, pack);
  }
};

// Converts to the type that is sent between ranks, or back.
template <class Y, class X, bool to>
struct Wired {
  Rows<Y> y;
  Rows<X> x;
  float scale;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    load(v, x.at(row, column), pack);
    for (float& one : v) one = to ? one * scale : one / scale;
    store(y.at(row, column), v, pack);
  }
};

template <class T>
struct Dropout {
  Rows<T> y, x;
  Drops drops;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    load(v, x.at(row, column), pack);
    drops.zero(v, row, column);
    for (float& one : v) one *= drops.growth();
    store(y.at(row, column), v, pack);
  }
};

template <class T>
struct Noise {
  Rows<T> y;
  i64 cols;  // of a row
  float scale;
  Random random;
  i64 before;  // elements
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float v[kPack];
    load(v, y.at(row, column), pack);
    const i64 first = before + row * cols + column;  // number of the element
    Philox4 four{};
    for (int j = 0; j < kPack; ++j) {
      const i64 i = first + j;
      if (j == 0 || i % 4 == 0) four = random.at(static_cast<std::uint64_t>(i / 4));
      v[j] += fmaf(2 * scale, to_uniform(four[static_cast<std::size_t>(i % 4)]), -scale);
    }
    store(y.at(row, column), v, pack);
  }
};

}  // namespace

void fill(cudaStream_t stream, const View& y, float value) {
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    run_each_pack("fill", stream, {y}, Fill<T>{Rows<T>(y), value});
  });
}
void compute(const op::Fill& op, const Queue& queue) { fill(queue.stream, view_of(op.y), op.value); }

View every_row(const View& row, i64 rows) { return {row.data, row.type, rows, row.cols, 0}; }

void add(cudaStream_t stream, const View& y, const View& x, const op::Drop& drop) {
  with_float(y.type, [&](auto a) {
    with_float(x.type, [&](auto b) {
      using Y = decltype(a);
      using X = decltype(b);
      with_drops(drop, y.cols, [&](auto drops) {
        run_each_pack("add", stream, drop, {y, x}, Add<Y, X, decltype(drops)>{Rows<Y>(y), Rows<X>(x), drops});
      });
    });
  });
}
void compute(const op::Add& op, const Queue& queue) {
  add(queue.stream, view_of(op.y), view_of(op.x), op.drop);
}

void cast(cudaStream_t stream, const View& y, const View& x) {
  with_float(y.type, [&](auto a) {
    with_float(x.type, [&](auto b) {
      using Y = decltype(a);
      using X = decltype(b);
      run_each_pack("cast", stream, {y, x}, Cast<Y, X>{Rows<Y>(y), Rows<X>(x)});
    });
  });
}
void compute(const op::Cast& op, const Queue& queue) { cast(queue.stream, view_of(op.y), view_of(op.x)); }

void to_wire(cudaStream_t stream, const View& y, const View& x, float scale) {
  with_float(y.type, [&](auto t) {
    using Y = decltype(t);
    run_each_pack("to_wire", stream, {y, x}, Wired<Y, float, true>{Rows<Y>(y), Rows<float>(x), scale});
  });
}
void from_wire(cudaStream_t stream, const View& y, const View& x, float scale) {
  with_float(x.type, [&](auto t) {
    using X = decltype(t);
    run_each_pack("from_wire", stream, {y, x}, Wired<float, X, false>{Rows<float>(y), Rows<X>(x), scale});
  });
}

void compute(const op::Multiply& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    run_each_pack("multiply", queue.stream, {y, x}, Multiply<T>{Rows<T>(y), Rows<T>(x), op.factor});
  });
}

void compute(const op::SoftCap& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    run_each_pack("soft_cap", queue.stream, {y, x}, SoftCap<T>{Rows<T>(y), Rows<T>(x), op.cap, 1 / op.cap});
  });
}

void compute(const op::Dropout& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const op::Drop drop = op.drop();
    run_each_pack("dropout", queue.stream, drop, {y, x},
                  Dropout<T>{Rows<T>(y), Rows<T>(x), Drops(drop, y.cols)});
  });
}

void compute(const op::Noise& op, const Queue& queue) {
  const View y = view_of(op.y);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    run_each_pack("noise", queue.stream, {y},
                  Noise<T>{Rows<T>(y), y.cols, op.scale, op.random, op.first_row * y.cols});
  });
}

void broadcast_row(cudaStream_t stream, const View& y, const View& row) {
  with_float(y.type, [&](auto a) {
    with_float(row.type, [&](auto b) {
      using Y = decltype(a);
      using X = decltype(b);
      const View rows = every_row(row, y.rows);
      run_each_pack("broadcast_row", stream, {y, rows}, Cast<Y, X>{Rows<Y>(y), Rows<X>(rows)});
    });
  });
}

}  // namespace ft::cuda
