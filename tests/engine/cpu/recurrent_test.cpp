// The short convolution and the gated delta rule, of every target, against one token after another.
#include <map>
#include <string>

#include "engine/ops/delta_room.h"
#include "tests/engine/cpu/leaf_fixture.h"
#include "tests/reference/recurrent.h"

namespace ft::cpu {
namespace {

using reference::Starts, reference::Values;
using Complex = std::complex<double>;
constexpr double kStep = 1e-20;

// Sequences shorter and longer than a convolution, a chunk, and several chunks.
const std::vector<Starts> kSequences{{0, 1}, {0, 5}, {0, 2, 3, 9}, {0, 64, 65, 130}, {0, 3, 200}};

Matrix& first_rows(const Trial& s, const Starts& starts) {
  Matrix& first = s.vector(starts.back(), DType::i32);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    for (std::int64_t r = starts[i]; r < starts[i + 1]; ++r) first.set(0, r, double(starts[i]));
  return first;
}

template <class Test>
void each_packing(const Test& run) {
  for (const Starts& starts : kSequences)
    each_trial({{starts.back(), 7}}, [&](const Trial& s) { run(s, starts); });
}

Values<Complex> complex_of(const Matrix& m) {
  const auto values = m.values();
  return {values.begin(), values.end()};
}

// The derivative of sum(dy y(inputs)) by element i of inputs[which].
template <class F>
double slope(std::vector<Values<Complex>> inputs, std::size_t which, std::size_t i, const Values<double>& dy,
             const F& y) {
  inputs[which][i] += Complex(0, kStep);
  const Values<Complex> values = y(inputs);
  double sum = 0;
  for (std::size_t j = 0; j < dy.size(); ++j) sum += dy[j] * values[j].imag() / kStep;
  return sum;
}

// Expects at most 13 elements of a gradient to be the reference's, which is computed once for all targets:
// they have the same inputs.
template <class F>
void expect_gradient(const std::string& of, const std::vector<double>& got,
                     const std::vector<Values<Complex>>& inputs, std::size_t which, const Values<double>& dy,
                     double tolerance, const F& y) {
  static std::map<std::string, std::vector<double>> known;
  std::vector<double> some, &want = known[str(of, " ", which)];
  const std::size_t step = std::max<std::size_t>(1, got.size() / 12);
  const bool first = want.empty();
  for (std::size_t i = 0; i < got.size(); i += step) {
    some.push_back(got[i]);
    if (first) want.push_back(slope(inputs, which, i, dy, y));
  }
  EXPECT_LT(nmse(some, want), tolerance) << of << ", input " << which;
}
std::string name_of(const Trial& s, const char* operation) {
  return str(operation, " ", s.rows, " x ", s.cols, " ", ft::name_of(s.type));
}

TEST(CausalConv, IsTheReference) {
  for (const std::int64_t taps : {1, 2, 4, 16})
    each_packing([&](const Trial& s, const Starts& starts) {
      Matrix &x = s.matrix(1), &y = s.matrix(2), &first = first_rows(s, starts);
      Matrix& w = s.matrix(1, s.cols * taps, s.type).randomize(3, 1);
      s.ops.run(
          op::CausalConv{.y = y, .x = x, .w = w.tensor.slice(0, 1).view({s.cols, taps}), .first = first});
      EXPECT_LT(nmse(y.values(), reference::causal_conv(x.values(), w.values(), std::size_t(taps), starts)),
                s.tolerance());
    });
}

TEST(CausalConv, GradientsAreTheComplexStep) {
  constexpr std::int64_t kTaps = 4;
  each_packing([&](const Trial& s, const Starts& starts) {
    Matrix &x = s.matrix(1), &dy = s.matrix(2), &dx = s.matrix(3), &first = first_rows(s, starts);
    Matrix &w = s.vector(s.cols * kTaps, s.type, 3), &dw = s.vector(s.cols * kTaps, DType::f32);
    s.ops.run(op::Fill{dw, 1});
    s.ops.run(op::CausalConvGrad{.dx = dx,
                                 .dw = dw.tensor.view({s.cols, kTaps}),
                                 .dy = dy,
                                 .x = x,
                                 .w = w.tensor.view({s.cols, kTaps}),
                                 .first = first});
    const std::vector<Values<Complex>> inputs{complex_of(x), complex_of(w)};
    const auto y = [&](const auto& in) { return reference::causal_conv(in[0], in[1], kTaps, starts); };
    expect_gradient(name_of(s, "conv"), dx.values(), inputs, 0, dy.values(), s.tolerance(), y);
    auto added = dw.values();
    for (double& v : added) v -= 1;
    expect_gradient(name_of(s, "conv"), added, inputs, 1, dy.values(), s.tolerance(DType::f32), y);
  });
}

// Tokens of a few sequences that come in several passes give the same bits as in one.
TEST(CausalConv, GoesOnFromItsMemory) {
  constexpr std::int64_t kTaps = 4, kColumns = 9, kRows = 12;
  each_trial({{kRows, kColumns}}, [&](const Trial& s) {
    Matrix &x = s.matrix(1), &whole = s.matrix(2), &part = s.matrix(3),
           &w = s.vector(kColumns * kTaps, s.type, 4);
    Matrix& memory = s.matrix(3, (kTaps - 1) * kColumns, s.type).randomize(5);
    const Tensor taps = w.tensor.view({kColumns, kTaps});
    s.ops.run(op::CausalConv{.y = whole, .x = x, .w = taps, .first = first_rows(s, {0, kRows})});
    std::int64_t from = 0;
    for (const std::int64_t count : {2, 1, 1, 5, 3}) {
      Matrix &slot = s.vector(count, DType::i32), &past = s.vector(count, DType::i32);
      slot.assign(std::vector<double>(std::size_t(count), 1));
      past.assign(std::vector<double>(std::size_t(count), double(from)));
      s.ops.run(op::CausalConv{.y = part.tensor.slice(from, from + count),
                               .memory = memory,
                               .x = x.tensor.slice(from, from + count),
                               .w = taps,
                               .first = first_rows(s, {0, count}),
                               .slot = slot,
                               .past = past});
      from += count;
    }
    EXPECT_EQ(part.values(), whole.values());
  });
}

struct DeltaCase {
  DeltaHeads heads;
  Starts starts;
};
const std::vector<DeltaCase> kDelta{{{1, 1, 3, 5}, {0, 1}},
                                    {{2, 4, 8, 6}, {0, 2, 3, 9}},
                                    {{2, 2, 16, 32}, {0, 64, 65, 130}},
                                    {{1, 3, 20, 18}, {0, 3, 140}}};

// Operands of the rule. g is negative, beta from 0 to 1.
struct Delta {
  Matrix &q, &k, &v, &g, &beta, &first;
  Delta(const Trial& s, const DeltaCase& c)
      : q(s.matrix(s.rows, c.heads.key_columns(), s.type).randomize(1)),
        k(s.matrix(s.rows, c.heads.key_columns(), s.type).randomize(2)),
        v(s.matrix(s.rows, c.heads.value_columns(), s.type).randomize(3)),
        g(s.matrix(s.rows, c.heads.values, DType::f32)),
        beta(s.matrix(s.rows, c.heads.values, DType::f32)),
        first(first_rows(s, c.starts)) {
    g.randomize(4);
    beta.randomize(5);
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t h = 0; h < c.heads.values; ++h) {
        g.set(r, h, -std::abs(g.get(r, h)) / 2);
        beta.set(r, h, std::abs(beta.get(r, h)) / 2);
      }
  }
  std::vector<Values<Complex>> complex() const {
    return {complex_of(q), complex_of(k), complex_of(v), complex_of(g), complex_of(beta)};
  }
};

Tensor work(const Trial& s, const DeltaHeads& h, bool gradient, std::int64_t parts = 1) {
  const std::int64_t rows = h.keys * parts, cols = delta_work(h, gradient);
  return s.vector(rows * cols, DType::f32).tensor.view({rows, cols});
}

template <class Test>
void each_delta(const Test& run) {
  for (const DeltaCase& c : kDelta)
    each_trial({{c.starts.back(), c.heads.value_columns()}}, [&](const Trial& s) { run(s, c); });
}

TEST(DeltaRule, IsTheReference) {
  each_delta([](const Trial& s, const DeltaCase& c) {
    const Delta d(s, c);
    Matrix &o = s.matrix(8), &other = s.matrix(9);
    for (const std::int64_t parts : {1, 2})
      s.ops.run(op::DeltaRule{.o = parts == 1 ? o.tensor : other.tensor,
                              .work = work(s, c.heads, false, parts),
                              .q = d.q,
                              .k = d.k,
                              .v = d.v,
                              .g = d.g,
                              .beta = d.beta,
                              .first = d.first,
                              .heads = c.heads});
    const auto want = reference::delta_rule(d.q.values(), d.k.values(), d.v.values(), d.g.values(),
                                            d.beta.values(), c.heads, c.starts);
    EXPECT_LT(nmse(o.values(), want), std::max(s.tolerance(), 1e-11));
    EXPECT_EQ(o.values(), other.values()) << "the parts of the work matter";
  });
}

TEST(DeltaRule, GradientsAreTheComplexStep) {
  each_delta([](const Trial& s, const DeltaCase& c) {
    const Delta d(s, c);
    const auto gate = [&] { return &s.matrix(s.rows, c.heads.values, DType::f32); };
    const auto keys = [&] { return &s.matrix(s.rows, c.heads.key_columns(), s.type); };
    Matrix &grad = s.matrix(8), &dv = s.matrix(9), *dq = keys(), *dk = keys(), *dg = gate(), *dbeta = gate();
    Matrix& states = s.matrix(std::max<std::int64_t>(1, s.rows / kDeltaChunk), c.heads.state(), DType::f32);
    s.ops.run(op::DeltaRuleGrad{.dq = *dq,
                                .dk = *dk,
                                .dv = dv,
                                .dg = *dg,
                                .dbeta = *dbeta,
                                .states = states,
                                .work = work(s, c.heads, true),
                                .o_grad = grad,
                                .q = d.q,
                                .k = d.k,
                                .v = d.v,
                                .g = d.g,
                                .beta = d.beta,
                                .first = d.first,
                                .heads = c.heads});
    const auto o = [&](const auto& in) {
      return reference::delta_rule(in[0], in[1], in[2], in[3], in[4], c.heads, c.starts);
    };
    const double own = std::max(s.tolerance(), 1e-10);
    std::size_t which = 0;
    for (const Matrix* m : {dq, dk, &dv, dg, dbeta}) {
      expect_gradient(name_of(s, "rule"), m->values(), d.complex(), which, grad.values(),
                      which < 3 ? own : 1e-9, o);
      ++which;
    }
  });
}

// Passes of one token, in a slot, give the results of one pass with all tokens.
TEST(DeltaRule, GoesOnFromItsMemory) {
  const DeltaHeads h{2, 4, 8, 6};
  constexpr std::int64_t kRows = 80;
  each_trial({{kRows, h.value_columns()}}, [&](const Trial& s) {
    const Delta d(s, {h, {0, kRows}});
    Matrix &whole = s.matrix(8), &part = s.matrix(9);
    Matrix& memory = s.matrix(3, h.state(), DType::f32).randomize(10);
    const auto run = [&](const Tensor& o, std::int64_t from, std::int64_t to, const Tensor& states,
                         const Tensor& slot, const Tensor& past) {
      const auto rows = [&](const Matrix& m) { return m.tensor.slice(from, to); };
      s.ops.run(op::DeltaRule{.o = o,
                              .memory = states,
                              .work = work(s, h, false),
                              .q = rows(d.q),
                              .k = rows(d.k),
                              .v = rows(d.v),
                              .g = rows(d.g),
                              .beta = rows(d.beta),
                              .first = first_rows(s, {0, to - from}),
                              .slot = slot,
                              .past = past,
                              .heads = h});
    };
    run(whole, 0, kRows, {}, {}, {});
    std::int64_t from = 0;
    for (const std::int64_t count : {70, 1, 1, 8}) {
      Matrix &slot = s.vector(count, DType::i32), &past = s.vector(count, DType::i32);
      slot.assign(std::vector<double>(std::size_t(count), 1));
      past.assign(std::vector<double>(std::size_t(count), double(from)));
      run(part.tensor.slice(from, from + count), from, from + count, memory, slot, past);
      from += count;
    }
    EXPECT_LT(nmse(part.values(), whole.values()), std::max(s.tolerance(), 1e-11));
  });
}

TEST(DeltaGates, AreTheReferenceWithItsGradients) {
  each_trial({{1, 1}, {3, 5}, {79, 21}}, [](const Trial& s) {
    Matrix &a = s.matrix(1, 8), &b = s.matrix(2), &da = s.matrix(3), &db = s.matrix(4);
    const auto gate = [&](std::uint64_t seed) -> Matrix& {
      return s.matrix(s.rows, s.cols, DType::f32).randomize(seed);
    };
    Matrix &g = gate(5), &beta = gate(6), &dg = gate(7), &dbeta = gate(8);
    Matrix &a_log = s.vector(s.cols, DType::f32, 9), &bias = s.vector(s.cols, DType::f32, 10);
    Matrix &da_log = s.vector(s.cols, DType::f32), &dbias = s.vector(s.cols, DType::f32);
    for (Matrix* m : {&da_log, &dbias}) s.ops.run(op::Fill{*m, 0});
    s.ops.run(op::DeltaGates{.g = g, .beta = beta, .a = a, .b = b, .a_log = a_log, .dt_bias = bias});
    s.ops.run(op::DeltaGatesGrad{.da = da,
                                 .db = db,
                                 .da_log = da_log,
                                 .ddt_bias = dbias,
                                 .dg = dg,
                                 .dbeta = dbeta,
                                 .a = a,
                                 .b = b,
                                 .a_log = a_log,
                                 .dt_bias = bias});
    EXPECT_LT(nmse(g.values(), reference::delta_decay(a.values(), a_log.values(), bias.values())), 1e-12);
    std::vector<double> want_beta, want_db;
    const std::vector<double> logits = b.values(), grads = dbeta.values();
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double p = 1 / (1 + std::exp(-logits[i]));
      want_beta.push_back(p);
      want_db.push_back(grads[i] * p * (1 - p));
    }
    EXPECT_LT(nmse(beta.values(), want_beta), 1e-12);
    EXPECT_LT(nmse(db.values(), want_db), s.tolerance());
    const std::vector<Values<Complex>> inputs{complex_of(a), complex_of(a_log), complex_of(bias)};
    const auto decay = [](const auto& in) { return reference::delta_decay(in[0], in[1], in[2]); };
    expect_gradient(name_of(s, "gates"), da.values(), inputs, 0, dg.values(), s.tolerance(), decay);
    expect_gradient(name_of(s, "gates"), da_log.values(), inputs, 1, dg.values(), 1e-11, decay);
    expect_gradient(name_of(s, "gates"), dbias.values(), inputs, 2, dg.values(), 1e-11, decay);
  });
}

TEST(Recurrent, AWrongIndexIsAnErrorNotAnAccess) {
  CpuOps ops(1);
  Matrix x(2, 3, DType::f32), y(2, 3, DType::f32), w(3, 2, DType::f32), first(1, 2, DType::i32);
  Matrix memory(2, 3, DType::f32), slot(1, 2, DType::i32), past(1, 2, DType::i32);
  first.assign({1, 1});
  EXPECT_THROW(ops.run(op::CausalConv{.y = y, .x = x, .w = w, .first = first}), InternalError);
  first.assign({0, 0});
  slot.assign({2, 2});
  past.assign({0, 0});
  EXPECT_THROW(ops.run(op::CausalConv{
                   .y = y, .memory = memory, .x = x, .w = w, .first = first, .slot = slot, .past = past}),
               InternalError);
}

}  // namespace
}  // namespace ft::cpu
