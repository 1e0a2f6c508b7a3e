// Parts of the steps of optimizers that use the gradient of a complete parameter.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/step_each.h"

namespace ft::cpu::FT_TARGET {

void compute(const op::FactoredMeans& op, Team& team) {
  const View grad = view_of(op.grad);
  const i64 rows = grad.rows, cols = grad.cols;
  const auto* g = data_of<const float>(op.grad);
  float *row = data_of<float>(op.row), *col = data_of<float>(op.col);
  const float beta2 = static_cast<float>(op.beta2), rest = static_cast<float>(1 - op.beta2);
  const Vec scale = splat(op.grad_scale), eps = splat(static_cast<float>(op.eps));
  const auto square = [&](auto part, i64 r, i64 i) {
    const Vec x = part.load(g + r * cols + i) * scale;
    return fma(x, x, eps);
  };
  each_row(rows, cols, team, [&](i64 r) {
    // Adds up in f64: a row of the longest vocabulary that ft supports has hundreds of thousands of elements.
    double sum = 0;
    float lanes[kLanes];
    for (i64 from = 0; from < cols; from += 4096) {
      store(lanes, reduce(
                       least(4096, cols - from), zero(),
                       [&](auto part, i64 i) {
                         const float* x = g + r * cols + from + i;
                         const Vec v = part.load(x) * scale;
                         return v * v;
                       },
                       [](Vec a, Vec b) { return a + b; }));
      for (const float lane : lanes) sum += lane;
    }
    const double mean = sum / static_cast<double>(cols) + op.eps;
    row[r] = __builtin_fmaf(static_cast<float>(mean), rest, row[r] * beta2);
  });
  each_vector(cols, [&](auto part, i64 i) { part.store(col + i, part.load(col + i) * splat(beta2)); });
  const Vec share = splat(static_cast<float>((1 - op.beta2) / static_cast<double>(rows)));
  add_column_sums(col, rows, cols, team, [&](auto part, i64 r, i64 i) { return square(part, r, i) * share; });
}

void compute(const op::FactoredUpdate& op, Team& team) {
  const View grad = view_of(op.grad);
  const i64 rows = grad.rows, cols = grad.cols;
  auto* g = data_of<float>(op.grad);
  const float *row = data_of<const float>(op.row), *col = data_of<const float>(op.col);
  const double mean = *data_of<const double>(op.row_sum) / static_cast<double>(rows);
  each_row(rows, cols, team, [&](i64 r) {
    const auto factor = static_cast<float>(op.grad_scale / __builtin_sqrt(row[r] / mean));
    float* x = g + r * cols;
    each_vector(cols, [&](auto part, i64 i) {
      part.store(x + i, part.load(x + i) * splat(factor) / sqrt(part.load(col + i)));
    });
  });
}

void compute(const op::RootUpdate& op, Team& team) {
  step_each({op.v, op.grad}, {}, op.grad, team, op.scalars());
}

void compute(const op::MuonMomentum& op, Team& team) {
  step_each({op.m, op.grad}, {}, op.grad, team, op.scalars());
}

void compute(const op::Scale& op, Team& team) {
  with_float(op.y.dtype, [&](auto to) {
    with_float(op.x.dtype, [&](auto from) {
      auto* y = data_of<decltype(to)>(op.y);
      const auto* x = data_of<const decltype(from)>(op.x);
      decltype(to) by{};
      from_float(by, op.squares ? steps::divisor(*data_of<const double>(op.squares), op.least) : 1.0f);
      const Vec times = splat(static_cast<float>(op.by)), over = splat(to_float(by));
      each_span(1, elements_of(op.x), true, team, [&](i64, i64 first, i64 count) {
        each_vector(count, [&](auto part, i64 i) {
          part.store(y + first + i, part.load(x + first + i) * times / over);
        });
      });
    });
  });
}

void compute(const op::Descend& op, Team& team) {
  with_float(op.update.dtype, [&](auto from) {
    auto* p = data_of<float>(op.master);
    const auto* u = data_of<const decltype(from)>(op.update);
    const double over =
        op.squares ? steps::shortened(*data_of<const double>(op.squares), op.count, op.threshold) : 1;
    const Vec keep = splat(static_cast<float>(op.keep)), rate = splat(static_cast<float>(-op.rate / over));
    each_span(1, elements_of(op.master), true, team, [&](i64, i64 first, i64 count) {
      each_vector(count, [&](auto part, i64 i) {
        float* at = p + first + i;
        part.store(at, fma(part.load(at), keep, part.load(u + first + i) * rate));
      });
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
