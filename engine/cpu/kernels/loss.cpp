// Cross-entropy of rows of logits, which may become their gradient in place: three passes over a row that
// stays in the second-level cache.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();

// exp(x - top) with zeros where a partial vector ends: sums must not see those lanes.
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

template <class T>
void row_of(const op::CrossEntropy& op, const View& logits, i64 row) {
  const i64 n = logits.cols, target = data_of<const std::int32_t>(op.targets)[row];
  T* p = at<T>(logits, row);
  const float logit = to_float(p[target]), e = op.smoothing;
  // A NaN may be missed here; the sum then has it.
  const float top = largest(reduce(
      n, splat(kLowest), [&](auto part, i64 i) { return logits_or_lowest(part, p + i); },
      [](Vec a, Vec b) { return max(a, b); }));
  const float total = sum_over(n, [&](auto part, i64 i) { return powers(part, p + i, splat(top)); });
  const float mean =
      e == 0 ? 0 : sum_over(n, [&](auto part, i64 i) { return part.load(p + i); }) / static_cast<float>(n);
  const double lse = double{top} + __builtin_log(double{total});
  data_of<float>(op.loss)[row] = static_cast<float>(math::smoothed_loss<double>(lse, logit, mean, e));
  if (!op.gradient) return;
  // scale (softmax - (1 - e) onehot - e / V)
  const float scale = op.weights.data ? op.scale * data_of<const float>(op.weights)[row] : op.scale;
  const float factor = scale / total, even = scale * e / static_cast<float>(n);
  const float at_target = __builtin_expf(logit - top) * factor - even - scale * (1 - e);
  if (op.cap > 0) {
    const float inverse = 1 / op.cap;
    each_vector(n, [&](auto part, i64 i) {
      const Vec slope = math::soft_cap_slope(part.load(p + i) * splat(inverse));
      part.store(p + i, (powers(part, p + i, splat(top)) * splat(factor) - splat(even)) * slope);
    });
    return from_float(p[target], at_target * math::soft_cap_slope(logit * inverse));
  }
  each_vector(n, [&](auto part, i64 i) {
    part.store(p + i, powers(part, p + i, splat(top)) * splat(factor) - splat(even));
  });
  from_float(p[target], at_target);
}

}  // namespace

void compute(const op::CrossEntropy& op, Team& team) {
  const View logits = view_of(op.logits);
  with_float(logits.type, [&](auto t) {
    each_row(logits.rows, logits.cols, team, [&](i64 row) { row_of<decltype(t)>(op, logits, row); });
  });
}

}  // namespace ft::cpu::FT_TARGET
