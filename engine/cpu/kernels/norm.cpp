// RMSNorm and its gradient, sums over rows, rotary positions and the gradient of an embedding.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

template <class T>
void norm(const View& y, float* rstd, const View& x, const T* w, float eps, Team& team) {
  each_row(x.rows, x.cols, team, [&](i64 r) {
    const T* px = at<T>(x, r);
    T* py = at<T>(y, r);
    const float squares = sum_over(x.cols, [&](auto part, i64 i) {
      const Vec v = part.load(px + i);
      return v * v;
    });
    const float s = rstd[r] = 1 / __builtin_sqrtf(squares / static_cast<float>(x.cols) + eps);
    const Vec scale = splat(s);
    each_vector(x.cols,
                [&](auto part, i64 i) { part.store(py + i, part.load(px + i) * scale * part.load(w + i)); });
  });
}

template <class T>
void norm_dx(const View& dx, const View& dy, const View& x, const T* w, const float* rstd, Team& team) {
  each_row(x.rows, x.cols, team, [&](i64 r) {
    const T *px = at<T>(x, r), *pdy = at<T>(dy, r);
    T* pdx = at<T>(dx, r);
    const float dot = sum_over(
        x.cols, [&](auto part, i64 i) { return part.load(pdy + i) * part.load(w + i) * part.load(px + i); });
    const float s = rstd[r];
    const Vec scale = splat(s), pull = splat(dot * s * s * s / static_cast<float>(x.cols));
    each_vector(x.cols, [&](auto part, i64 i) {
      const Vec slope =
          math::rms_norm_slope(part.load(pdy + i), part.load(px + i), part.load(w + i), scale, pull);
      part.store(pdx + i, part.load(pdx + i) + slope);
    });
  });
}

template <class T>
void rotate(const RopeCall& c, Team& team) {
  const i64 half = c.head_width / 2;
  each_row(c.x.rows, c.x.cols, team, [&](i64 r) {
    const float *cos = c.cos + c.positions[r] * half, *sin = c.sin + c.positions[r] * half;
    const Vec sign = splat(c.sign);
    T* row = at<T>(c.x, r);
    for (T *a = row, *b = row + half; a < row + c.x.cols; a += c.head_width, b += c.head_width)
      each_vector(half, [&](auto part, i64 i) {
        const Vec x = part.load(a + i), y = part.load(b + i);
        const Vec p = part.load(cos + i), q = part.load(sin + i) * sign;
        part.store(a + i, x * p - y * q);
        part.store(b + i, y * p + x * q);
      });
  });
}

}  // namespace

void rms_norm(const View& y, float* rstd, const View& x, const void* w, float eps, Team& team) {
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    norm<T>(y, rstd, x, static_cast<const T*>(w), eps, team);
  });
}

void rms_norm_grad(const View& dx, float* dw, const View& dy, const View& x, const void* w, const float* rstd,
                   Team& team) {
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    if (dx.data) norm_dx<T>(dx, dy, x, static_cast<const T*>(w), rstd, team);
    if (dw)
      add_column_sums(dw, x.rows, x.cols, team, [&](auto part, i64 r, i64 i) {
        return part.load(at<T>(dy, r) + i) * part.load(at<T>(x, r) + i) * splat(rstd[r]);
      });
  });
}

void column_sums(float* y, const View& x, Team& team) {
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    add_column_sums(y, x.rows, x.cols, team,
                    [&](auto part, i64 r, i64 i) { return part.load(at<T>(x, r) + i); });
  });
}

void rope(const RopeCall& call, Team& team) {
  with_float(call.x.type, [&](auto t) { rotate<decltype(t)>(call, team); });
}

// A block of columns is one thread's, and it takes the rows in order.
void embedding_grad(const View& dtable, const std::int32_t* ids, const View& dy, Team& team) {
  constexpr i64 kBlock = 64;
  with_float(dy.type, [&](auto t) {
    using T = decltype(t);
    each_item((dy.cols + kBlock - 1) / kBlock, dy.rows * dy.cols, team, [&](i64 block) {
      const i64 first = block * kBlock;
      for (i64 r = 0; r < dy.rows; ++r) {
        float* y = at<float>(dtable, ids[r]) + first;
        const T* d = at<T>(dy, r) + first;
        each_vector(least(kBlock, dy.cols - first),
                    [&](auto part, i64 i) { part.store(y + i, part.load(y + i) + part.load(d + i)); });
      }
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
