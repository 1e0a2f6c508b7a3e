// Cross-entropy of rows of logits, which may be replaced by their gradient: three passes over a row that
// stays in the second-level cache. If a row's logits are only some of its columns, the third pass runs once
// the sums of all columns are known.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();

// exp(x - top), with zeros after the end of a partial vector, so that sums ignore those lanes.
template <class T>
inline Vec powers(Whole part, const T* p, Vec top) {
  return exp2((part.load(p) - top) * splat(kLog2e));
}
template <class T>
inline Vec powers(Part part, const T* p, Vec top) {
  const Vec e = exp2((part.load(p) - top) * splat(kLog2e));
  return select(first_lanes(part.n), e, zero());
}
template <class T>
inline Vec logits_or_lowest(Whole part, const T* p) {
  return part.load(p);
}
template <class T>
inline Vec logits_or_lowest(Part part, const T* p) {
  return select(first_lanes(part.n), part.load(p), splat(kLowest));
}

struct RowSums {
  float top, total, logit, sum;  // total: sum of exp(x - top)
};

// The sums over n logits; `sum` only if it is wanted.
template <class T>
RowSums sums_of(const T* p, i64 n, i64 target, bool wanted) {
  RowSums s{};
  // A NaN may be missed here; it then appears in the sum.
  s.top = largest(reduce(
      n, splat(kLowest), [&](auto part, i64 i) { return logits_or_lowest(part, p + i); },
      [](Vec a, Vec b) { return max(a, b); }));
  s.total = sum_over_many(n, [&](auto part, i64 i) { return powers(part, p + i, splat(s.top)); });
  if (0 <= target && target < n) s.logit = to_float(p[target]);
  if (wanted) s.sum = sum_over(n, [&](auto part, i64 i) { return part.load(p + i); });
  return s;
}

// The sums over all of a row's columns, from the sums of each part.
RowSums sums_of(const View& parts, i64 rows, i64 row) {
  RowSums s{kLowest, 0, 0, 0};
  for (i64 i = row; i < parts.rows; i += rows) {
    const float top = at<const float>(parts, i)[0];
    s.top = top > s.top ? top : s.top;
  }
  for (i64 i = row; i < parts.rows; i += rows) {
    const float* p = at<const float>(parts, i);
    if (p[0] > kLowest) s.total += p[1] * __builtin_expf(p[0] - s.top);
    s.logit += p[2];
    s.sum += p[3];
  }
  return s;
}

template <class T>
void row_of(const op::LogitSums& op, const View& logits, i64 row) {
  const i64 target = data_of<const std::int32_t>(op.targets)[row] - op.first;
  const RowSums s = sums_of(at<const T>(logits, row), logits.cols, target, true);
  float* y = at<float>(view_of(op.y), row);
  y[0] = s.top;
  y[1] = s.total;
  y[2] = s.logit;
  y[3] = s.sum;
}

template <class T>
void row_of(const op::CrossEntropy& op, const View& logits, i64 row) {
  const i64 n = logits.cols, target = data_of<const std::int32_t>(op.targets)[row] - op.first;
  T* p = at<T>(logits, row);
  const float e = op.smoothing;
  const RowSums s =
      op.sums.data ? sums_of(view_of(op.sums), logits.rows, row) : sums_of(p, n, target, e != 0);
  const float classes = static_cast<float>(op.sums.data ? op.classes : n),
              mean = e == 0 ? 0 : s.sum / classes;
  const double lse = double{s.top} + __builtin_log(double{s.total});
  const double weight = op.dynamic ? math::dynamic_weight(lse, s.logit) : 1;
  data_of<float>(op.loss)[row] =
      static_cast<float>(weight * math::smoothed_loss<double>(lse, s.logit, mean, e));
  if (!op.gradient) return;
  // scale (softmax - (1 - e) onehot - e / V)
  const float scale = (op.weights.data ? op.scale * data_of<const float>(op.weights)[row] : op.scale) *
                      static_cast<float>(weight);
  const float factor = scale / s.total, even = scale * e / classes;
  const bool here = 0 <= target && target < n;
  const float at_target = __builtin_expf(s.logit - s.top) * factor - even - scale * (1 - e);
  if (op.cap > 0) {
    const float inverse = 1 / op.cap;
    each_vector(n, [&](auto part, i64 i) {
      const Vec slope = math::soft_cap_slope(part.load(p + i) * splat(inverse));
      part.store(p + i, (powers(part, p + i, splat(s.top)) * splat(factor) - splat(even)) * slope);
    });
    if (here) from_float(p[target], at_target * math::soft_cap_slope(s.logit * inverse));
    return;
  }
  each_vector(n, [&](auto part, i64 i) {
    part.store(p + i, powers(part, p + i, splat(s.top)) * splat(factor) - splat(even));
  });
  if (here) from_float(p[target], at_target);
}

}  // namespace

void compute(const op::LogitSums& op, Team& team) {
  const View logits = view_of(op.logits);
  with_float(logits.type, [&](auto t) {
    each_row(logits.rows, logits.cols, team, [&](i64 row) { row_of<decltype(t)>(op, logits, row); });
  });
}

void compute(const op::CrossEntropy& op, Team& team) {
  const View logits = view_of(op.logits);
  with_float(logits.type, [&](auto t) {
    each_row(logits.rows, logits.cols, team, [&](i64 row) { row_of<decltype(t)>(op, logits, row); });
  });
}

}  // namespace ft::cpu::FT_TARGET
