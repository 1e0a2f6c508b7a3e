// fill, add, cast, multiply, soft_cap, dropout and noise.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/philox.h"

namespace ft::cpu::FT_TARGET {
namespace {

template <class Y, class X>
void cast_as(const View& y, const View& x, Team& team) {
  each_span(y.rows, y.cols, dense(y) && dense(x), team, [&](i64 row, i64 column, i64 count) {
    Y* py = at<Y>(y, row) + column;
    const X* px = at<X>(x, row) + column;
    each_vector(count, [&](auto part, i64 i) { part.store(py + i, part.load(px + i)); });
  });
}

// y = f(x), both of one type.
template <class Op, class F>
void each_element(const Op& op, Team& team, F f) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_span(y.rows, y.cols, dense(y) && dense(x), team, [&](i64 row, i64 column, i64 count) {
      T* py = at<T>(y, row) + column;
      const T* px = at<T>(x, row) + column;
      each_vector(count, [&](auto part, i64 i) { part.store(py + i, f(part.load(px + i))); });
    });
  });
}

// The uniform numbers in (0, 1] of elements [64 block, 64 block + 64): Random::at(16 block + j) for all j.
inline void uniforms(float (&u)[64], std::uint64_t block, std::uint64_t key) {
  std::uint32_t low[kCounters], high[kCounters];
  for (int j = 0; j < kCounters; ++j) {
    const std::uint64_t index = block * kCounters + static_cast<std::uint64_t>(j);
    low[j] = static_cast<std::uint32_t>(index);
    high[j] = static_cast<std::uint32_t>(index >> 32);
  }
  Uniforms four;
  uniforms(four, low, high, key);
  for (int j = 0; j < kCounters; ++j)
    for (int n = 0; n < 4; ++n) u[4 * j + n] = four.of[n][j];
}

// The numbers of elements: the first one's, and from one row's to the next.
struct Numbers {
  i64 first, columns;
};

// f(row, column, count, u): pieces of all rows with the uniform numbers u of their elements.
template <class F>
void each_with_uniforms(const View& y, bool all_dense, Numbers number, std::uint64_t key, Team& team, F f) {
  each_span(y.rows, y.cols, all_dense && number.columns == y.cols, team, [&](i64 row, i64 column, i64 count) {
    const i64 first = number.first + row * number.columns + column;  // of the span's first element
    float u[64 + kLanes];  // loads go beyond the numbers, not their use
    float(&numbers)[64] = reinterpret_cast<float(&)[64]>(u);
    for (i64 i = 0; i < count;) {
      const i64 skip = (first + i) % 64, n = least(64 - skip, count - i);
      uniforms(numbers, static_cast<std::uint64_t>((first + i) / 64), key);
      f(row, column + i, n, u + skip);
      i += n;
    }
  });
}

template <class T>
void dropout_as(const View& y, const View& x, const op::Dropout& op, Team& team) {
  const float p = op.p;
  const i64 columns = op.columns > 0 ? op.columns : y.cols;
  const Numbers number{op.first_row * columns + op.first_column, columns};
  const Vec limit = splat(p), scale = splat(1 / (1 - p));
  const bool all_dense = dense(y) && dense(x);
  each_with_uniforms(
      y, all_dense, number, op.random.key, team, [&](i64 row, i64 column, i64 n, const float* u) {
        T* py = at<T>(y, row) + column;
        const T* px = at<T>(x, row) + column;
        each_vector(n, [&](auto part, i64 i) {
          part.store(py + i, select(less(limit, part.load(u + i)), part.load(px + i) * scale, zero()));
        });
      });
}

template <class T>
void add_noise(const View& y, const op::Noise& op, Team& team) {
  const float most = op.scale;
  const Vec low = splat(-most), width = splat(2 * most);
  const Numbers number{op.first_row * y.cols, y.cols};
  each_with_uniforms(y, dense(y), number, op.random.key, team,
                     [&](i64 row, i64 column, i64 n, const float* u) {
                       T* py = at<T>(y, row) + column;
                       each_vector(n, [&](auto part, i64 i) {
                         part.store(py + i, part.load(py + i) + fma(width, part.load(u + i), low));
                       });
                     });
}

}  // namespace

void compute(const op::Fill& op, Team& team) {
  const View y = view_of(op.y);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_span(y.rows, y.cols, dense(y), team, [&](i64 row, i64 column, i64 count) {
      T* p = at<T>(y, row) + column;
      each_vector(count, [&](auto part, i64 i) { part.store(p + i, splat(op.value)); });
    });
  });
}

void compute(const op::Add& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto ty) {
    with_float(x.type, [&](auto tx) {
      using Y = decltype(ty);
      using X = decltype(tx);
      each_span(y.rows, y.cols, dense(y) && dense(x), team, [&](i64 row, i64 column, i64 count) {
        Y* py = at<Y>(y, row) + column;
        const X* px = at<X>(x, row) + column;
        each_vector(count,
                    [&](auto part, i64 i) { part.store(py + i, part.load(py + i) + part.load(px + i)); });
      });
    });
  });
}

void compute(const op::Cast& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto ty) {
    with_float(x.type, [&](auto tx) { cast_as<decltype(ty), decltype(tx)>(y, x, team); });
  });
}

void compute(const op::Multiply& op, Team& team) {
  const Vec factor = splat(op.factor);
  each_element(op, team, [&](Vec x) { return x * factor; });
}

void compute(const op::SoftCap& op, Team& team) {
  const Vec cap = splat(op.cap), inverse = splat(1 / op.cap);
  each_element(op, team, [&](Vec x) { return cap * math::tanh_of(x * inverse); });
}

void compute(const op::Dropout& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) { dropout_as<decltype(t)>(y, x, op, team); });
}

void compute(const op::Noise& op, Team& team) {
  const View y = view_of(op.y);
  with_float(y.type, [&](auto t) { add_noise<decltype(t)>(y, op, team); });
}

}  // namespace ft::cpu::FT_TARGET
