// Statistics of rows of logits: a few passes over a row that stays in the second-level cache.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();

// f(x - top), with zeros after the end of a partial vector, so that sums ignore those lanes.
template <class T, class F>
inline Vec below_top(Whole part, const T* p, Vec top, F f) {
  return f(part.load(p) - top);
}
template <class T, class F>
inline Vec below_top(Part part, const T* p, Vec top, F f) {
  return select(first_lanes(part.n), f(part.load(p) - top), zero());
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
bool is_first_largest(const T* p, i64 target, float top) {
  for (i64 i = 0; i < target; ++i)
    if (to_float(p[i]) == top) return false;
  return to_float(p[target]) == top;
}

template <class T>
void row_of(const op::LogitStatistics& op, const View& logits, i64 row) {
  const i64 n = logits.cols;
  const T* p = at<const T>(logits, row);
  const float top = largest(reduce(
      n, splat(kLowest), [&](auto part, i64 i) { return logits_or_lowest(part, p + i); },
      [](Vec a, Vec b) { return max(a, b); }));
  const auto sum_of = [&](auto f) {
    return sum_over_many(n, [&](auto part, i64 i) { return below_top(part, p + i, splat(top), f); });
  };
  const auto power = [](Vec x) { return exp2(x * splat(kLog2e)); };
  const float total = sum_of(power);
  const float squares = sum_of([&](Vec x) { return power(x + x); });
  const float weighted = sum_of([&](Vec x) { return power(x) * max(x, splat(-1e30f)); });  // 0 for p = 0
  const float sum = sum_over(
      n, [&](auto part, i64 i) { return below_top(part, p + i, splat(top), [](Vec x) { return x; }); });
  const double log_total = __builtin_log(double{total});
  float* y = at<float>(view_of(op.y), row);
  y[0] = static_cast<float>(log_total - double{weighted} / double{total});
  y[1] = top + sum / static_cast<float>(n);
  y[2] = is_first_largest(p, data_of<const std::int32_t>(op.targets)[row], top) ? 1 : 0;
  y[3] = static_cast<float>(__builtin_log(double{squares}) - 2 * log_total);
}

}  // namespace

void compute(const op::LogitStatistics& op, Team& team) {
  const View logits = view_of(op.logits);
  with_float(logits.type, [&](auto t) {
    each_row(logits.rows, logits.cols, team, [&](i64 row) { row_of<decltype(t)>(op, logits, row); });
  });
}

}  // namespace ft::cpu::FT_TARGET
