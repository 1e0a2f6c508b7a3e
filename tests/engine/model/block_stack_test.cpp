// BlockStack: the gradients of a stack; recomputation of any number of blocks does not change a bit.
// tests/models/recomputation_test.cpp tests complete models.
#include "engine/model/block_stack.h"

#include <algorithm>

#include "engine/layers/mlp.h"
#include "engine/layers/rms_norm.h"
#include "tests/engine/layers/layer_fixture.h"
#include "tests/engine/model/late_depot.h"

namespace ft::test {
namespace {

constexpr std::int64_t kRows = 3, kWidth = 4, kInner = 6;
constexpr double kEps = 1e-3;
const std::vector<std::int32_t> kStarts{0, kRows}, kKept{0, 2};

// h = x + inner(norm(x)), y = h + mlp(norm(h)). h and the saved tensors of `inner` are always kept.
struct Block {
  RmsNorm inner_norm, norm;
  Mlp inner, mlp;

  struct Side {
    std::span<const std::int32_t> starts = {};
    Side of(Ctx&, const PickedRows& picked) const { return {picked.starts}; }
  };
  struct Saved {
    Tensor rstd1, rstd2, h;
    Mlp::Saved inner, mlp;
  };
  Saved forward(Ctx& c, Tensor y, Tensor x, const Side&, Keep keep) const {
    Saved s;
    s.rstd1 = c.saved.take({x.rows()}, DType::f32);
    s.rstd2 = c.saved.take({x.rows()}, DType::f32);
    s.h = c.save(x.rows(), x.cols());
    Scope scratch(c.scratch);
    const Tensor n = c.temporary(x.rows(), x.cols());
    inner_norm.forward(c, n, s.rstd1, x);
    s.inner = inner.forward(c, s.h, n, x, Keep::all);
    if (!y) return s;
    norm.forward(c, n, s.rstd2, s.h);
    s.mlp = mlp.forward(c, y, n, s.h, keep);
    return s;
  }
  void backward(Ctx& c, Tensor d, Tensor x, const Saved& s, const Side&, bool input_grad) const {
    Scope scratch(c.scratch);
    const Tensor n = c.temporary(x.rows(), x.cols()), dn = c.temporary(x.rows(), x.cols());
    norm.forward(c, n, s.rstd2, s.h);
    mlp.backward(c, dn, d, n, s.mlp);
    norm.backward(c, d, dn, s.h, s.rstd2);
    inner_norm.forward(c, n, s.rstd1, x);
    inner.backward(c, dn, d, n, s.inner);
    inner_norm.backward(c, input_grad ? d : Tensor{}, dn, x, s.rstd1);
  }
  void visit(Visitor& v) {
    inner_norm.visit(v);
    inner.visit(v);
    norm.visit(v);
    mlp.visit(v);
  }
};

Mlp make_mlp(const std::string& at, float dropout, bool trained, DType dtype) {
  const LinearForm form{.trained = trained};
  Mlp mlp;
  mlp.gate_proj = linear(at + "gate", kWidth, kInner, form, dtype);
  mlp.up_proj = linear(at + "up", kWidth, kInner, form, dtype);
  mlp.down_proj = linear(at + "down", kInner, kWidth, form, dtype);
  mlp.dropout = {dropout};
  return mlp;
}

// Makes a block whose parameters' names begin with its number.
Block make(std::size_t number, float dropout, bool trained, DType dtype) {
  const std::string at = str(number, "."), inner = str(number, ".inner.");
  Block b{make_rms_norm(inner + "norm", kWidth, float(kEps), dtype),
          make_rms_norm(at + "norm", kWidth, float(kEps), dtype), make_mlp(inner, dropout, trained, dtype),
          make_mlp(at, dropout, trained, dtype)};
  b.inner_norm.weight.trainable = b.norm.weight.trainable = trained;
  return b;
}

struct Setting {
  std::size_t blocks = 3, first = 0;
  std::int64_t recomputed = 0, segment = 1;
  bool input_grad = true;
  float dropout = 0.25f;
  DType dtype = DType::f32;
  std::vector<bool> drops = {};  // random-LTD: kKept of the rows are left
  bool inputs_leave = false;
};

// A stack, and the results of a forward and a backward pass.
struct Pass {
  LayerRun run;
  std::vector<Block> blocks;
  BlockStack<Block> stack;
  Values<double> y, dx, dy;
  LateDepot depot;
  InputsHome inputs{depot};

  explicit Pass(const Setting& t) : run(t.dtype) {
    for (std::size_t i = 0; i < t.blocks; ++i) blocks.push_back(make(i, t.dropout, i >= t.first, t.dtype));
    stack.blocks = blocks;
    stack.recomputed = t.recomputed;
    stack.segment = t.segment;
    stack.drops = t.drops;
    stack.name = "stack";
    for (Block& b : stack.blocks) run.remember(b);
    stack.add_units(run.store, false);
    const Block::Side side{kStarts};
    run.start();
    Matrix &x = run.input(kRows, kWidth, "x"), &d = run.matrix(kRows, kWidth, "dy"),
           &copy = run.matrix(kRows, kWidth, "y"), &turns = run.matrix(kRows, kWidth, "x");
    dy = d.values();
    run.ops.copy(copy, stack.evaluate(run.c, run.store, turns, {}));
    const Values<double> evaluated = copy.values();
    run.saved.rewind(0);
    depot.reserve(100 * Depot::kBlock);
    depot.open();
    if (t.inputs_leave) run.c.inputs = &inputs;
    run.ops.copy(copy, stack.forward(run.c, run.store, x, side, kKept));
    y = copy.values();
    stack.backward(run.c, run.store, d, side, t.input_grad);
    if (t.input_grad) dx = d.values();
    EXPECT_EQ(inputs.used, 0) << "what forward took is given back";
    if (t.drops.empty()) {
      EXPECT_EQ(evaluated, y);
    } else {
      EXPECT_NE(evaluated, y) << "tokens are dropped in training only";
    }
    EXPECT_EQ(x.values(), run.in.at("x")) << "x stays as it is";
    if (t.first == 0 && t.drops.empty()) {
      EXPECT_EQ(run.saved.mark(), 0) << "what forward took is given back";
    }
  }
};

TEST(BlockStackLayer, IsTheReferenceWithItsGradients) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const float dropout : {0.0f, 0.25f})
      for (const std::size_t first : {0, 1}) {
        SCOPED_TRACE(str(name_of(dtype), " dropout ", dropout, " first ", first));
        Pass pass({.first = first, .input_grad = first == 0, .dropout = dropout, .dtype = dtype});
        const auto reference = [&](const auto& in) {
          auto x = in.at("x");
          for (const char* at : {"0.inner.", "0.", "1.inner.", "1.", "2.inner.", "2."}) {
            const auto normed = reference::rms_norm(x, in.at(str(at, "norm.weight")), kEps);
            x = reference::add(x, reference::mlp(in, at, Activation::silu, normed, kRows,
                                                 {.random = pass.run.c.random}, double(dropout)));
          }
          return x;
        };
        pass.run.expect_near(pass.y, reference(pass.run.in), 24, "y");
        if (first == 0)
          pass.run.expect_near(pass.dx, complex_step(reference, pass.run.in, "x", pass.dy), 48, "dx");
        pass.run.expect_gradients(reference, pass.dy, 48);
      }
}

// gathered() returns the rows of x with these numbers; scattered() returns x with these rows replaced.
template <class T>
Values<T> gathered(const Values<T>& x, const std::vector<std::int32_t>& rows) {
  Values<T> y;
  for (const std::int32_t r : rows) y.insert(y.end(), x.begin() + r * kWidth, x.begin() + (r + 1) * kWidth);
  return y;
}
template <class T>
Values<T> scattered(Values<T> x, const Values<T>& y, const std::vector<std::int32_t>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy_n(y.begin() + static_cast<std::ptrdiff_t>(i) * kWidth, kWidth, x.begin() + rows[i] * kWidth);
  return x;
}

TEST(BlockStackLayer, DropsTokensWithExactGradients) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::vector<bool>& drops : {std::vector<bool>{0, 1, 0}, {1, 0, 1}, {1, 1, 1}}) {
      SCOPED_TRACE(str(name_of(dtype), " ", drops[0], drops[1], drops[2]));
      Pass pass({.dropout = 0, .dtype = dtype, .drops = drops});
      const auto reference = [&](const auto& in) {
        auto x = in.at("x");
        for (std::size_t i = 0; i < drops.size(); ++i) {
          std::vector<std::int32_t> rows{0, 1, 2};
          if (drops[i])
            rows =
                pick_rows(kStarts, kKept, pass.run.c.random.with("random_ltd").with(str("stack.", i))).rows;
          auto own = gathered(x, rows);
          for (const std::string& at : {str(i, ".inner."), str(i, ".")}) {
            const auto normed = reference::rms_norm(own, in.at(at + "norm.weight"), kEps);
            own = reference::add(own, reference::mlp(in, at, Activation::silu, normed, std::ssize(rows),
                                                     {.random = pass.run.c.random}, 0.0));
          }
          x = scattered(x, own, rows);
        }
        return x;
      };
      pass.run.expect_near(pass.y, reference(pass.run.in), 24, "y");
      pass.run.expect_near(pass.dx, complex_step(reference, pass.run.in, "x", pass.dy), 48, "dx");
      pass.run.expect_gradients(reference, pass.dy, 48);
    }
}

TEST(BlockStackLayer, RecomputationChangesNoBitWhereTokensAreDropped) {
  for (const std::size_t first : {0, 1}) {
    Setting t{4, first, 0, 1, first == 0, 0.25f, DType::f32, {false, true, true, false}};
    Pass kept(t);
    for (t.recomputed = 1; t.recomputed <= 5; ++t.recomputed)
      for (t.segment = 1; t.segment <= 4; ++t.segment) {
        SCOPED_TRACE(str("first ", first, " recomputed ", t.recomputed, " segment ", t.segment));
        Pass again(t);
        EXPECT_EQ(again.y, kept.y);
        EXPECT_EQ(again.dx, kept.dx);
        EXPECT_EQ(again.run.gradients(), kept.run.gradients());
      }
  }
}

TEST(PickedRows, AreAsManyOfEachSequenceAndAnyAlike) {
  const std::vector<std::int32_t> starts{0, 5, 5, 8, 20}, kept{0, 2, 2, 5, 9};
  std::vector<int> times(20);
  constexpr int kTrials = 6000;
  for (std::uint64_t i = 0; i < kTrials; ++i) {
    const PickedRows p = pick_rows(starts, kept, Random{i});
    ASSERT_TRUE(std::is_sorted(p.rows.begin(), p.rows.end()));
    EXPECT_EQ(p.starts, kept);
    for (std::size_t s = 0; s + 1 < starts.size(); ++s)
      for (std::int32_t k = kept[s]; k < kept[s + 1]; ++k) {
        const auto at = static_cast<std::size_t>(k);
        ASSERT_TRUE(starts[s] <= p.rows[at] && p.rows[at] < starts[s + 1]);
        ASSERT_EQ(p.positions[at], p.rows[at] - starts[s]);
        ++times[static_cast<std::size_t>(p.rows[at])];
      }
  }
  for (std::size_t row = 0; row < 20; ++row) {
    const double want = row < 5 ? 2.0 / 5 : row < 8 ? 1 : 4.0 / 12;
    EXPECT_NEAR(times[row] / double(kTrials), want, 0.03) << row;
  }
}

TEST(BlockStackLayer, RecomputationChangesNoBit) {
  constexpr std::size_t kBlocks = 5;
  for (const float dropout : {0.0f, 0.25f})
    for (const std::size_t first : {0, 2})
      for (const bool input_grad : {true, false}) {
        Setting t{kBlocks, first, 0, 1, input_grad, dropout};
        Pass kept(t);
        const Named<double> gradients = kept.run.gradients();
        for (t.recomputed = 1; t.recomputed <= std::int64_t(kBlocks) + 1; ++t.recomputed)
          for (t.segment = 1; t.segment <= std::int64_t(kBlocks); ++t.segment) {
            SCOPED_TRACE(str("dropout ", dropout, " first ", first, " dx ", input_grad, " recomputed ",
                             t.recomputed, " segment ", t.segment));
            Pass again(t);
            EXPECT_EQ(again.y, kept.y);
            EXPECT_EQ(again.dx, kept.dx);
            EXPECT_EQ(again.run.gradients(), gradients);
          }
      }
}

TEST(BlockStackLayer, OffloadedInputsChangeNoBitAndTakeLess) {
  constexpr std::size_t kBlocks = 9;
  for (const std::size_t first : {0, 2}) {
    Setting t{kBlocks, first, 0, 1, first == 0};
    Pass kept(t);
    for (t.recomputed = 1; t.recomputed <= std::int64_t(kBlocks) + 1; ++t.recomputed) {
      SCOPED_TRACE(str("first ", first, " recomputed ", t.recomputed));
      t.inputs_leave = false;
      const Pass stay(t);
      t.inputs_leave = true;
      Pass leave(t);
      EXPECT_EQ(leave.y, kept.y);
      EXPECT_EQ(leave.dx, kept.dx);
      EXPECT_EQ(leave.run.gradients(), kept.run.gradients());
      const std::int64_t leaving = std::min(t.recomputed, std::int64_t(kBlocks)) - 1 - std::int64_t(first);
      if (t.recomputed < std::int64_t(kBlocks)) {
        EXPECT_EQ(leave.inputs.peak, std::max<std::int64_t>(0, leaving) * Depot::kBlock);
      }
      if (leaving > 3) {
        EXPECT_LT(leave.run.saved.peak(), stay.run.saved.peak());
      }
    }
  }
}

}  // namespace
}  // namespace ft::test
