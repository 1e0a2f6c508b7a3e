// Mixtures of experts: routes, and rows that are sorted by expert and put together again.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();

// A row's softmax. NaN stays NaN, because a sum has it.
template <class T>
void softmax(float* p, const T* logits, i64 n) {
  float top = kLowest, total = 0;
  for (i64 i = 0; i < n; ++i) top = to_float(logits[i]) > top ? to_float(logits[i]) : top;
  each_vector(n, [&](auto part, i64 i) {
    part.store(p + i, exp2((part.load(logits + i) - splat(top)) * splat(kLog2e)));
  });
  for (i64 i = 0; i < n; ++i) total += p[i];
  for (i64 i = 0; i < n; ++i) p[i] /= total;
}

template <class T>
void sigmoids(float* p, const T* logits, i64 n) {
  each_vector(n, [&](auto part, i64 i) { part.store(p + i, math::sigmoid(part.load(logits + i))); });
}

float sum_of(const float* p, const std::int32_t* ids, i64 k) {
  float sum = 0;
  for (i64 j = 0; j < k; ++j) sum += p[ids[j]];
  return sum;
}

template <class T>
void route_back(const op::RouteGrad& op, i64 row) {
  const View dlogits = view_of(op.dlogits), ids_view = view_of(op.ids);
  const i64 n = dlogits.cols, k = ids_view.cols;
  const float *p = data_of<const float>(op.p) + row * n, *slope = data_of<const float>(op.slope);
  const float* dweights = data_of<const float>(op.dweights) + row * k;
  const std::int32_t* ids = data_of<const std::int32_t>(op.ids) + row * k;
  T* out = at<T>(dlogits, row);
  // dp = slope plus the gradient through the choices. dlogits = p (1 - p) dp for sigmoids, p (dp - sum(p dp))
  // for a softmax.
  const float sum = math::route_divisor(op.rule, sum_of(p, ids, k)), scale = op.rule.scale;
  const float pull = math::route_pull(op.rule, dweights, p, ids, k, sum);
  float dot = 0;
  for (i64 e = 0; e < n && slope; ++e) dot += p[e] * slope[e];
  // With normalisation these add up to 0; their rounding would train the rows of experts that nobody chose.
  for (i64 j = 0; j < k && !op.rule.normalised; ++j) dot += p[ids[j]] * ((dweights[j] - pull) / sum * scale);
  for (i64 e = 0; e < n; ++e) {
    float g = slope ? slope[e] : 0;
    for (i64 j = 0; j < k; ++j)
      if (ids[j] == e) g += (dweights[j] - pull) / sum * scale;
    from_float(out[e], op.rule.sigmoid ? p[e] * (1 - p[e]) * g : p[e] * (g - dot));
  }
}

inline float factor_of(float w, bool sigmoid) { return sigmoid ? 1 / (1 + __builtin_expf(-w)) : w; }

}  // namespace

void compute(const op::Route& op, Team& team) {
  const View logits = view_of(op.logits), ids_view = view_of(op.ids);
  const i64 n = logits.cols, k = ids_view.cols;
  with_float(logits.type, [&](auto t) {
    each_row(logits.rows, n * (8 + k), team, [&](i64 row) {
      float *p = data_of<float>(op.p) + row * n, *w = data_of<float>(op.weights) + row * k;
      std::int32_t* ids = data_of<std::int32_t>(op.ids) + row * k;
      const auto* own = at<const decltype(t)>(logits, row);
      op.rule.sigmoid ? sigmoids(p, own, n) : softmax(p, own, n);
      math::choose_experts(ids, {p, data_of<const float>(op.bias)}, n, k, op.rule);
      const float sum = math::route_divisor(op.rule, sum_of(p, ids, k));
      for (i64 j = 0; j < k; ++j) w[j] = p[ids[j]] / sum * op.rule.scale;
    });
  });
}

void compute(const op::RouteGrad& op, Team& team) {
  const View dlogits = view_of(op.dlogits);
  with_float(dlogits.type, [&](auto t) {
    each_row(dlogits.rows, dlogits.cols * 8, team, [&](i64 row) { route_back<decltype(t)>(op, row); });
  });
}

// Sorts with one pass that counts and one that places: too little work to share.
void compute(const op::GroupRows& op, Team&) {
  const View ids_view = view_of(op.ids), starts_view = view_of(op.starts);
  const i64 k = ids_view.cols, rows = ids_view.rows * k, experts = starts_view.rows * starts_view.cols - 1;
  const auto* ids = data_of<const std::int32_t>(op.ids);
  auto *order = data_of<std::int32_t>(op.order), *tokens = data_of<std::int32_t>(op.tokens),
       *places = data_of<std::int32_t>(op.places), *starts = data_of<std::int32_t>(op.starts);
  for (i64 e = 0; e <= experts; ++e) starts[e] = 0;
  for (i64 i = 0; i < rows; ++i) ++starts[ids[i] + 1];
  for (i64 e = 0; e < experts; ++e) starts[e + 1] += starts[e];
  for (i64 i = 0; i < rows; ++i) {  // starts become ends
    const std::int32_t place = starts[ids[i]]++;
    order[place] = static_cast<std::int32_t>(i);
    tokens[place] = static_cast<std::int32_t>(i / k);
    places[i] = place;
  }
  for (i64 e = experts; e > 0; --e) starts[e] = starts[e - 1];
  starts[0] = 0;
}

void compute(const op::RouterBalance& op, Team&) {
  const View sums = view_of(op.sums);
  const i64 n = sums.cols;
  const auto* starts = data_of<const std::int32_t>(op.starts);
  auto* slope = data_of<float>(op.slope);
  double tokens = 0, total = 0;
  for (i64 l = 0; l < sums.rows; ++l)
    tokens += static_cast<double>(starts[l * (n + 1) + n]) / static_cast<double>(op.choices);
  for (i64 e = 0; e < n; ++e) {
    double chosen = 0, p = 0;
    for (i64 l = 0; l < sums.rows; ++l) {
      chosen += starts[l * (n + 1) + e + 1] - starts[l * (n + 1) + e];
      p += *(at<const float>(sums, l) + e);
    }
    const double f = tokens > 0 ? chosen / tokens : 0, each = tokens > 0 ? 1 / tokens : 0;
    total += f * p * each;
    slope[e] = static_cast<float>(double{op.scale} * op.weight * static_cast<double>(n) * f * each);
  }
  *data_of<double>(op.loss) += double{op.weight} * static_cast<double>(n) * total;
}

void compute(const op::ScaleRows& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const auto* w = data_of<const float>(op.w);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    each_row(x.rows, x.cols, team, [&](i64 row) {
      const Vec factor = splat(factor_of(w[row], op.sigmoid));
      const T* px = at<T>(x, row);
      T* py = at<T>(y, row);
      each_vector(x.cols, [&](auto part, i64 i) { part.store(py + i, part.load(px + i) * factor); });
    });
  });
}

void compute(const op::ScaleRowsGrad& op, Team& team) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x);
  const auto* w = data_of<const float>(op.w);
  auto* dw = data_of<float>(op.dw);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    each_row(x.rows, x.cols, team, [&](i64 row) {
      const float factor = factor_of(w[row], op.sigmoid);
      const T *px = at<T>(x, row), *pdy = at<T>(dy, row);
      T* pdx = at<T>(dx, row);
      const float dot =
          sum_over(x.cols, [&](auto part, i64 i) { return part.load(pdy + i) * part.load(px + i); });
      dw[row] = op.sigmoid ? dot * factor * (1 - factor) : dot;
      each_vector(x.cols, [&](auto part, i64 i) { part.store(pdx + i, part.load(pdy + i) * splat(factor)); });
    });
  });
}

void compute(const op::GatherSum& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x), c = view_of(op.c), rows_view = view_of(op.rows);
  const i64 k = rows_view.cols;
  const auto* rows = data_of<const std::int32_t>(op.rows);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_row(y.rows, y.cols * k, team, [&](i64 row) {
      const std::int32_t* from = rows + row * k;
      const T* pc = c.data ? at<T>(c, row) : nullptr;
      T* py = at<T>(y, row);
      each_vector(y.cols, [&](auto part, i64 i) {
        Vec sum = pc ? part.load(pc + i) : zero();
        for (i64 j = 0; j < k; ++j) sum = sum + part.load(at<T>(x, from[j]) + i);
        part.store(py + i, sum);
      });
    });
  });
}

void compute(const op::RepeatRows& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  if (x.rows == 0) return;
  const i64 n = y.rows / x.rows;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_row(x.rows, x.cols * n, team, [&](i64 row) {
      const T* px = at<T>(x, row);
      for (i64 i = row * n; i < (row + 1) * n; ++i) {
        T* py = at<T>(y, i);
        each_vector(x.cols, [&](auto part, i64 j) { part.store(py + j, part.load(px + j)); });
      }
    });
  });
}

void compute(const op::RepeatRowsGrad& op, Team& team) {
  const View dx = view_of(op.dx), dy = view_of(op.dy);
  if (dx.rows == 0) return;
  const i64 n = dy.rows / dx.rows;
  with_float(dx.type, [&](auto t) {
    using T = decltype(t);
    each_row(dx.rows, dx.cols * n, team, [&](i64 row) {
      T* pdx = at<T>(dx, row);
      each_vector(dx.cols, [&](auto part, i64 j) {
        Vec sum = part.load(at<T>(dy, row * n) + j);
        for (i64 i = row * n + 1; i < (row + 1) * n; ++i) sum = sum + part.load(at<T>(dy, i) + j);
        part.store(pdx + j, sum);
      });
    });
  });
}

void compute(const op::Transpose& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_row(y.rows, y.cols, team, [&](i64 row) {
      T* py = at<T>(y, row);
      for (i64 i = 0; i < y.cols; ++i) py[i] = at<T>(x, i)[row];
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
