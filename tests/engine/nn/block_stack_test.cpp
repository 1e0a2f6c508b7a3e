// BlockStack: the gradients of a stack, and every amount of recomputation with not a bit of difference.
// tests/models/recomputation_test.cpp has whole models.
#include "engine/nn/block_stack.h"

#include "engine/nn/mlp.h"
#include "engine/nn/rms_norm.h"
#include "tests/engine/nn/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kRows = 3, kWidth = 4, kInner = 6;
constexpr double kEps = 1e-3;

// h = x + inner(norm(x)), y = h + mlp(norm(h)); h and what `inner` saves are always kept.
struct Block {
  RmsNorm inner_norm, norm;
  Mlp inner, mlp;

  struct Side {};
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

// The names of its parameters begin with its number.
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
};

// A stack, and what a pass gives.
struct Pass {
  LayerRun run;
  BlockStack<Block> stack;
  Values<double> y, dx, dy;

  explicit Pass(const Setting& t) : run(t.dtype) {
    for (std::size_t i = 0; i < t.blocks; ++i)
      stack.blocks.push_back(make(i, t.dropout, i >= t.first, t.dtype));
    for (Block& b : stack.blocks) stack.units.push_back(run.add(b));
    stack.first = t.first;
    stack.recomputed = t.recomputed;
    stack.segment = t.segment;
    run.start();
    Matrix &x = run.input(kRows, kWidth, "x"), &d = run.matrix(kRows, kWidth, "dy"),
           &copy = run.matrix(kRows, kWidth, "y"), &turns = run.matrix(kRows, kWidth, "x");
    dy = d.values();
    run.ops.copy(copy, stack.evaluate(run.c, run.store, turns, {}));
    const Values<double> evaluated = copy.values();
    run.saved.rewind(0);
    run.ops.copy(copy, stack.forward(run.c, run.store, x, {}));
    y = copy.values();
    stack.backward(run.c, run.store, d, {}, t.input_grad);
    if (t.input_grad) dx = d.values();
    EXPECT_EQ(evaluated, y);
    EXPECT_EQ(x.values(), run.in.at("x")) << "x stays as it is";
    if (t.first == 0) {
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

}  // namespace
}  // namespace ft::test
