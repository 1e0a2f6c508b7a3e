// LayerNorm and its gradient.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

// x - mean, with zeros after the end of a partial vector, so that sums ignore those lanes.
template <class T>
inline Vec centred(Whole part, const T* p, Vec mean) {
  return part.load(p) - mean;
}
template <class T>
inline Vec centred(Part part, const T* p, Vec mean) {
  return select(first_lanes(part.n), part.load(p) - mean, zero());
}

// The weight; 1 if there is none.
template <class P, class T>
inline Vec weight(P part, const T* w, i64 i) {
  return w ? part.load(w + i) : splat(1.0f);
}

template <class T>
void norm(const op::LayerNorm& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const T *w = data_of<const T>(op.w), *b = data_of<const T>(op.b);
  float *means = data_of<float>(op.mean), *rstds = data_of<float>(op.rstd);
  const auto columns = static_cast<float>(x.cols);
  each_row(x.rows, x.cols, team, [&](i64 r) {
    const T* px = at<T>(x, r);
    T* py = at<T>(y, r);
    const float mean = means[r] =
        sum_over(x.cols, [&](auto part, i64 i) { return part.load(px + i); }) / columns;
    const float squares = sum_over(x.cols, [&](auto part, i64 i) {
      const Vec v = centred(part, px + i, splat(mean));
      return v * v;
    });
    const float rstd = rstds[r] = 1 / __builtin_sqrtf(squares / columns + op.eps);
    each_vector(x.cols, [&](auto part, i64 i) {
      const Vec normed = (part.load(px + i) - splat(mean)) * splat(rstd);
      part.store(py + i, normed * weight(part, w, i) + (b ? part.load(b + i) : zero()));
    });
  });
}

template <class T>
void add_dx(const op::LayerNormGrad& op, Team& team) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x);
  const T* w = data_of<const T>(op.w);
  const float *means = data_of<const float>(op.mean), *rstds = data_of<const float>(op.rstd);
  const auto columns = static_cast<float>(x.cols);
  each_row(x.rows, x.cols, team, [&](i64 r) {
    const T *px = at<T>(x, r), *pdy = at<T>(dy, r);
    T* pdx = at<T>(dx, r);
    const Vec mean = splat(means[r]), rstd = splat(rstds[r]);
    const float g =
        sum_over(x.cols, [&](auto part, i64 i) { return part.load(pdy + i) * weight(part, w, i); });
    const float gn = sum_over(x.cols, [&](auto part, i64 i) {
      return part.load(pdy + i) * weight(part, w, i) * (centred(part, px + i, mean) * rstd);
    });
    const Vec mean_g = splat(g / columns), mean_gn = splat(gn / columns);
    each_vector(x.cols, [&](auto part, i64 i) {
      const Vec normed = (part.load(px + i) - mean) * rstd;
      const Vec slope =
          math::layer_norm_slope(part.load(pdy + i), normed, weight(part, w, i), rstd, mean_g, mean_gn);
      part.store(pdx + i, part.load(pdx + i) + slope);
    });
  });
}

}  // namespace

void compute(const op::LayerNorm& op, Team& team) {
  with_float(op.x.dtype, [&](auto t) { norm<decltype(t)>(op, team); });
}

void compute(const op::LayerNormGrad& op, Team& team) {
  const View dy = view_of(op.dy), x = view_of(op.x);
  const float *mean = data_of<const float>(op.mean), *rstd = data_of<const float>(op.rstd);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    if (op.dx.data) add_dx<T>(op, team);
    if (op.dw.data)
      add_column_sums(data_of<float>(op.dw), x.rows, x.cols, team, [&](auto part, i64 r, i64 i) {
        const Vec normed = (part.load(at<T>(x, r) + i) - splat(mean[r])) * splat(rstd[r]);
        return part.load(at<T>(dy, r) + i) * normed;
      });
    if (op.db.data)
      add_column_sums(data_of<float>(op.db), x.rows, x.cols, team,
                      [&](auto part, i64 r, i64 i) { return part.load(at<T>(dy, r) + i); });
  });
}

}  // namespace ft::cpu::FT_TARGET
