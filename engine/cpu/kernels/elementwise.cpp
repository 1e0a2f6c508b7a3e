// fill, add, cast, multiply, soft_cap, dropout and noise.
#include "engine/cpu/kernels/drops.h"
#include "engine/cpu/kernels/leaf_functions.h"

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

template <class T>
void dropout_as(const View& y, const View& x, const op::Drop& drop, Team& team) {
  each_dropped(y, dense(y) && dense(x), drop, team, [&](i64 row, i64 column, i64 n, const Drawn& drawn) {
    T* py = at<T>(y, row) + column;
    const T* px = at<T>(x, row) + column;
    each_vector(n, [&](auto part, i64 i) {
      part.store(py + i, drawn.kept(part, i, part.load(px + i)) * drawn.growth);
    });
  });
}

template <class Y, class X>
void add_as(const View& y, const View& x, const op::Drop& drop, Team& team) {
  each_dropped(y, dense(y) && dense(x), drop, team, [&](i64 row, i64 column, i64 n, const Drawn& drawn) {
    Y* py = at<Y>(y, row) + column;
    const X* px = at<X>(x, row) + column;
    each_vector(n, [&](auto part, i64 i) {
      part.store(py + i, fma(drawn.kept(part, i, part.load(py + i)), drawn.growth, part.load(px + i)));
    });
  });
}

template <class T>
void add_noise(const View& y, const op::Noise& op, Team& team) {
  const float most = op.scale;
  const Vec low = splat(-most), width = splat(2 * most);
  each_with_draws<Uniforms>(y, dense(y), {op.first_row * y.cols, y.cols}, op.random.key, team,
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
    with_float(x.type, [&](auto tx) { add_as<decltype(ty), decltype(tx)>(y, x, op.drop, team); });
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
  with_float(y.type, [&](auto t) { dropout_as<decltype(t)>(y, x, op.drop(), team); });
}

void compute(const op::Noise& op, Team& team) {
  const View y = view_of(op.y);
  with_float(y.type, [&](auto t) { add_noise<decltype(t)>(y, op, team); });
}

}  // namespace ft::cpu::FT_TARGET
