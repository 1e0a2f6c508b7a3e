// RMSNorm and its gradient, sums over rows, rotary positions and the gradient of an embedding.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

template <class T>
void norm(const op::RmsNorm& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const T* w = data_of<const T>(op.w);
  float* rstd = data_of<float>(op.rstd);
  const Vec offset = splat(op.offset);
  each_row(x.rows, x.cols, team, [&](i64 r) {
    const T* px = at<T>(x, r);
    T* py = at<T>(y, r);
    const float squares = sum_over(x.cols, [&](auto part, i64 i) {
      const Vec v = part.load(px + i);
      return v * v;
    });
    const float s = rstd[r] = 1 / __builtin_sqrtf(squares / static_cast<float>(x.cols) + op.eps);
    const Vec scale = splat(s);
    each_vector(x.cols, [&](auto part, i64 i) {
      part.store(py + i, part.load(px + i) * scale * (offset + part.load(w + i)));
    });
  });
}

template <class T>
void norm_dx(const op::RmsNormGrad& op, Team& team) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x);
  const T* w = data_of<const T>(op.w);
  const float* rstd = data_of<const float>(op.rstd);
  const Vec offset = splat(op.offset);
  each_row(x.rows, x.cols, team, [&](i64 r) {
    const T *px = at<T>(x, r), *pdy = at<T>(dy, r);
    T* pdx = at<T>(dx, r);
    const float dot = sum_over(x.cols, [&](auto part, i64 i) {
      return part.load(pdy + i) * (offset + part.load(w + i)) * part.load(px + i);
    });
    const float s = rstd[r];
    const Vec scale = splat(s), pull = splat(dot * s * s * s / static_cast<float>(x.cols));
    each_vector(x.cols, [&](auto part, i64 i) {
      const Vec slope =
          math::rms_norm_slope(part.load(pdy + i), part.load(px + i), offset + part.load(w + i), scale, pull);
      part.store(pdx + i, part.load(pdx + i) + slope);
    });
  });
}

// Rotates the pairs (2 i, 2 i + 1) of a head's columns.
template <class T>
void rotate_neighbours(T* x, const float* cos, const float* sin, i64 half, float sign) {
  for (i64 i = 0; i < half; ++i) {
    const float u = to_float(x[2 * i]), v = to_float(x[2 * i + 1]), p = cos[i], q = sin[i] * sign;
    from_float(x[2 * i], u * p - v * q);
    from_float(x[2 * i + 1], v * p + u * q);
  }
}

template <class T>
void rotate(const op::Rope& op, const View& x, Team& team) {
  const i64 half = op.cos.cols();
  const auto* positions = data_of<const std::int32_t>(op.positions);
  each_row(x.rows, x.cols, team, [&](i64 r) {
    const float *cos = data_of<const float>(op.cos) + positions[r] * half,
                *sin = data_of<const float>(op.sin) + positions[r] * half;
    const Vec sign = splat(op.sign);
    T *row = at<T>(x, r), *end = row + x.cols;
    if (op.neighbours) {
      for (T* a = row + op.first; a < end; a += op.head_width) rotate_neighbours(a, cos, sin, half, op.sign);
      return;
    }
    for (T *a = row + op.first, *b = a + half; a < end; a += op.head_width, b += op.head_width)
      each_vector(half, [&](auto part, i64 i) {
        const Vec u = part.load(a + i), v = part.load(b + i);
        const Vec p = part.load(cos + i), q = part.load(sin + i) * sign;
        part.store(a + i, u * p - v * q);
        part.store(b + i, v * p + u * q);
      });
  });
}

}  // namespace

void compute(const op::RmsNorm& op, Team& team) {
  with_float(op.x.dtype, [&](auto t) { norm<decltype(t)>(op, team); });
}

void compute(const op::RmsNormGrad& op, Team& team) {
  const View dy = view_of(op.dy), x = view_of(op.x);
  const auto* rstd = data_of<const float>(op.rstd);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    if (op.dx.data) norm_dx<T>(op, team);
    if (op.dw.data)
      add_column_sums(data_of<float>(op.dw), x.rows, x.cols, team, [&](auto part, i64 r, i64 i) {
        return part.load(at<T>(dy, r) + i) * part.load(at<T>(x, r) + i) * splat(rstd[r]);
      });
  });
}

void compute(const op::ColumnSums& op, Team& team) {
  const View x = view_of(op.x);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    add_column_sums(data_of<float>(op.y), x.rows, x.cols, team,
                    [&](auto part, i64 r, i64 i) { return part.load(at<T>(x, r) + i); });
  });
}

void compute(const op::Rope& op, Team& team) {
  with_float(op.x.dtype, [&](auto t) {
    rotate<decltype(t)>(op, view_of(op.x), team);
    if (op.more.data) rotate<decltype(t)>(op, view_of(op.more), team);
  });
}

// Gives each thread blocks of columns; a block takes the rows in order.
void compute(const op::EmbeddingGrad& op, Team& team) {
  constexpr i64 kBlock = 64;
  const View dtable = view_of(op.dtable), dy = view_of(op.dy);
  const auto* ids = data_of<const std::int32_t>(op.ids);
  with_float(dy.type, [&](auto t) {
    using T = decltype(t);
    each_item((dy.cols + kBlock - 1) / kBlock, dy.rows * dy.cols, team, [&](i64 block) {
      const i64 first = block * kBlock;
      for (i64 r = 0; r < dy.rows; ++r) {
        if (ids[r] < 0 || ids[r] == op.padding) continue;
        float* y = at<float>(dtable, ids[r]) + first;
        const T* d = at<T>(dy, r) + first;
        each_vector(least(kBlock, dy.cols - first),
                    [&](auto part, i64 i) { part.store(y + i, part.load(y + i) + part.load(d + i)); });
      }
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
