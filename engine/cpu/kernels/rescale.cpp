// Magnitudes of a matrix's rows, columns rescaled by them, and columns gathered by number.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {

// Reads p a few columns at a time, and a vector of each row of b: p's rows are long and b's are short.
void compute(const op::Magnitudes& op, Team& team) {
  constexpr i64 kBlock = 64;
  const View b = view_of(op.b), p = view_of(op.p);
  const auto *magnitude = data_of<const float>(op.magnitude), *squares = data_of<const float>(op.squares);
  auto *scale = data_of<float>(op.scale), *per_norm = data_of<float>(op.per_norm);
  with_float(b.type, [&](auto t) {
    using T = decltype(t);
    each_item((b.rows + kBlock - 1) / kBlock, b.rows * b.cols, team, [&](i64 block) {
      const i64 first = block * kBlock, n = least(kBlock, b.rows - first);
      float sum[kBlock];
      for (i64 i = 0; i < n; ++i) sum[i] = squares[first + i];
      each_vector(b.cols, [&](auto part, i64 k) {
        float wide[kBlock][kLanes];
        for (i64 i = 0; i < n; ++i) store(wide[i], part.load(at<T>(b, first + i) + k));
        for (i64 j = 0; j < least(kLanes, b.cols - k); ++j) {
          const float* row = at<float>(p, k + j) + first;
          for (i64 i = 0; i < n; ++i) sum[i] += wide[i][j] * row[i];
        }
      });
      for (i64 i = 0; i < n; ++i) {
        const float r = per_norm[first + i] = 1 / __builtin_sqrtf(sum[i]);
        scale[first + i] = magnitude[first + i] * r;
      }
    });
  });
}

void compute(const op::ScaleColumns& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const auto* scale = data_of<const float>(op.scale);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const auto* bias = data_of<const T>(op.bias);
    each_row(y.rows, y.cols, team, [&](i64 r) {
      const T* px = at<T>(x, r);
      T* py = at<T>(y, r);
      each_vector(y.cols, [&](auto part, i64 i) {
        const Vec scaled = part.load(px + i) * part.load(scale + i);
        part.store(py + i, bias ? scaled + part.load(bias + i) : scaled);
      });
    });
  });
}

void compute(const op::ColumnDots& op, Team& team) {
  const View a = view_of(op.a), b = view_of(op.b);
  const auto* scale = data_of<const float>(op.scale);
  with_float(a.type, [&](auto t) {
    using T = decltype(t);
    add_column_sums(data_of<float>(op.y), a.rows, a.cols, team, [&](auto part, i64 r, i64 i) {
      return part.load(at<T>(a, r) + i) * part.load(at<T>(b, r) + i) * part.load(scale + i);
    });
  });
}

void compute(const op::GatherColumns& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const auto* columns = data_of<const std::int32_t>(op.columns);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_row(y.rows, y.cols, team, [&](i64 r) {
      for (i64 j = 0; j < y.cols; ++j) at<T>(y, r)[j] = at<T>(x, r)[columns[j]];
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
