// Sums of f32 in f64, and the optimizers' updates: dense f32.
#include "engine/core/dynamic_table.h"
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/step_each.h"

namespace ft::cpu::FT_TARGET {
namespace {

// The sum of f(x[i]) in f64: at most 256 parts, whose number and bounds depend on n only, added in order.
template <class F>
double sum_in_order(const Tensor& t, Team& team, F f) {
  const i64 n = elements_of(t);
  const auto* x = data_of<const float>(t);
  constexpr i64 kParts = 256, kStep = 16;
  const i64 length = (n / kParts / 4096 + 1) * 4096, parts = (n + length - 1) / length;
  double sums[kParts];
  each_item(parts, n, team, [&](i64 p) {
    const i64 end = least(n, (p + 1) * length);
    double lanes[kStep] = {};
    i64 i = p * length;
    for (; i + kStep <= end; i += kStep)
      for (i64 j = 0; j < kStep; ++j) lanes[j] += f(static_cast<double>(x[i + j]));
    for (i64 j = 0; i + j < end; ++j) lanes[j] += f(static_cast<double>(x[i + j]));
    double s = 0;
    for (const double lane : lanes) s += lane;
    sums[p] = s;
  });
  double s = 0;
  for (i64 p = 0; p < parts; ++p) s += sums[p];
  return s;
}

// A state in 8 bits.
struct Coded {
  Coded(const Tensor& c, const Tensor& l, bool has_signs)
      : codes(data_of<std::uint8_t>(c)),
        largest(data_of<float>(l)),
        map(dynamic_map(has_signs).data()),
        table(dynamic_table(has_signs)) {}

  void decode(float* x, i64 block, i64 n) const {
    const std::uint8_t* c = codes + block * op::kCodedBlock;
    for (i64 i = 0; i < n; ++i) x[i] = map[c[i]] * largest[block];
  }
  void encode(i64 block, float* x, i64 n) const {
    const Vec most = reduce(
        n, zero(), [&](auto part, i64 i) { return abs(part.load(x + i)); },
        [](Vec a, Vec b) { return max(a, b); });
    float lanes[kLanes], top = 0;
    store(lanes, most);
    for (const float lane : lanes) top = lane > top ? lane : top;
    largest[block] = top;
    std::uint8_t* c = codes + block * op::kCodedBlock;
    const Vec by = splat(top > 0 ? top : 1);
    each_vector(n, [&](auto part, i64 i) { part.store(x + i, part.load(x + i) / by); });
    for (i64 i = 0; i < n; ++i) c[i] = static_cast<std::uint8_t>(table.code(x[i]));
  }

  std::uint8_t* codes;
  float* largest;
  const float* map;
  const DynamicTable& table;
};

// The same where all but the master is in 8 bits: a block at a time is decoded, stepped, and coded anew.
template <std::size_t N, class F>
void step_each_block(const Tensor& master, const Coded (&states)[N], const Tensor& grad, Team& team,
                     const F& f) {
  auto* p = data_of<float>(master);
  const auto* g = data_of<const float>(grad);
  const auto step = [&](i64 first, i64 n) {
    float decoded[N][op::kCodedBlock];
    const i64 block = first / op::kCodedBlock;
    for (std::size_t k = 0; k < N; ++k) states[k].decode(decoded[k], block, n);
    each_vector(n, [&](auto part, i64 i) {
      Vec x[N + 1] = {part.load(p + first + i)};
      for (std::size_t k = 0; k < N; ++k) x[k + 1] = part.load(decoded[k] + i);
      f(x, part.load(g + first + i));
      part.store(p + first + i, x[0]);
      for (std::size_t k = 0; k < N; ++k) part.store(decoded[k] + i, x[k + 1]);
    });
    for (std::size_t k = 0; k < N; ++k) states[k].encode(block, decoded[k], n);
  };
  each_span(1, elements_of(grad), true, team, [&](i64, i64 first, i64 count) {  // of whole blocks
    for (i64 at = 0; at < count; at += op::kCodedBlock) step(first + at, least(op::kCodedBlock, count - at));
  });
}

}  // namespace

void compute(const op::Sum& op, Team& team) {
  *data_of<double>(op.y) += sum_in_order(op.x, team, [](double v) { return v; });
}

void compute(const op::SumSquares& op, Team& team) {
  *data_of<double>(op.y) += sum_in_order(op.x, team, [](double v) { return v * v; });
}

void compute(const op::AdamW& op, Team& team) {
  if (op.m_largest)
    step_each_block(op.master, {{op.m, op.m_largest, true}, {op.v, op.v_largest, false}}, op.grad, team,
                    op.scalars());
  else
    step_each({op.master, op.m, op.v}, op.grad, team, op.scalars());
}

void compute(const op::Lion& op, Team& team) {
  if (op.m_largest)
    step_each_block(op.master, {{op.m, op.m_largest, true}}, op.grad, team, op.scalars());
  else
    step_each({op.master, op.m}, op.grad, team, op.scalars());
}

void compute(const op::Sgd& op, Team& team) {
  if (op.buffer)
    step_each({op.master, op.buffer}, op.grad, team, op.with_momentum());
  else
    step_each({op.master}, op.grad, team, op.scalars());
}

void compute(const op::Adagrad& op, Team& team) {
  step_each({op.master, op.sum}, op.grad, team, op.scalars());
}

void compute(const op::RmsProp& op, Team& team) {
  const steps::RmsPropScalars how = op.scalars();
  if (op.mean && op.buffer)
    step_each({op.master, op.square, op.mean, op.buffer}, op.grad, team, steps::RmsProp<true, true>{how});
  else if (op.mean)
    step_each({op.master, op.square, op.mean}, op.grad, team, steps::RmsProp<true, false>{how});
  else if (op.buffer)
    step_each({op.master, op.square, op.buffer}, op.grad, team, steps::RmsProp<false, true>{how});
  else
    step_each({op.master, op.square}, op.grad, team, steps::RmsProp<false, false>{how});
}

void compute(const op::FirstMoment& op, Team& team) {
  auto* y = data_of<float>(op.y);
  const auto *m = data_of<const float>(op.m), *g = data_of<const float>(op.grad);
  const steps::FirstMoment how = op.scalars();
  each_span(1, elements_of(op.y), true, team, [&](i64, i64 first, i64 count) {
    each_vector(count, [&](auto part, i64 j) {
      const i64 i = first + j;
      const Vec moment = how(part.load(m + i), part.load(g + i));
      part.store(y + i, op.adds ? part.load(y + i) + moment : moment);
    });
  });
}

void compute(const op::PlainAdam& op, Team& team) {
  auto *p = data_of<float>(op.master), *v = data_of<float>(op.v);
  const auto *m = data_of<const float>(op.m), *g = data_of<const float>(op.grad);
  const steps::PlainAdam how = op.scalars();
  each_span(1, elements_of(op.master), true, team, [&](i64, i64 first, i64 count) {
    each_vector(count, [&](auto part, i64 j) {
      const i64 i = first + j;
      Vec second = part.load(v + i);
      if (g) part.store(v + i, second = how.second_moment(second, part.load(g + i)));
      part.store(p + i, how.step(part.load(p + i), part.load(m + i), second));
    });
  });
}

void compute(const op::Average& op, Team& team) { step_each({op.mean}, op.x, team, op.scalars()); }

}  // namespace ft::cpu::FT_TARGET
