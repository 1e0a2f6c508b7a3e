// Mlp: gated or not, with every activation, and any combination of kept tensors, adapters, dropout and
// training. tests/models/mlp_test.cpp tests more rows than one piece.
#include "engine/layers/mlp.h"

#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kWidth = 9, kInner = 13;

struct Case {
  const char* name;
  LinearForm form;
  Activation activation = Activation::silu;
  bool gated = true;
  Keep keep = Keep::all;
  float dropout = 0;
  bool wants_dx = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const LinearForm kTrained{.trained = true}, kAdapter{.rank = 3},
    kDropping{.bias = true, .rank = 3, .dropout = 0.25f};
const Case kCases[] = {
    {"Silu", kTrained},
    {"Gelu", kTrained, Activation::gelu},
    {"GeluTanh", kTrained, Activation::gelu_tanh},
    {"Relu", kTrained, Activation::relu},
    {"UngatedSilu", kTrained, Activation::silu, false},
    {"UngatedGelu", kTrained, Activation::gelu, false},
    {"UngatedGeluTanh", kTrained, Activation::gelu_tanh, false},
    {"UngatedRelu", kTrained, Activation::relu, false},
    {"Bias", {.bias = true, .trained = true}},
    {"Frozen", {}},
    {"First", kTrained, Activation::silu, true, Keep::all, 0, false},
    {"KeepNothing", kTrained, Activation::silu, true, Keep::nothing},
    {"KeepButTheMlp", kTrained, Activation::silu, true, Keep::but_the_mlp},
    {"KeepWhole", kTrained, Activation::silu, true, Keep::whole},
    {"KeepWholeFrozen", {}, Activation::silu, true, Keep::whole},
    {"Dropout", kTrained, Activation::silu, true, Keep::all, 0.25f},
    {"DropoutKeepWhole", kTrained, Activation::silu, true, Keep::whole, 0.25f},
    {"DropoutKeepNothing", kTrained, Activation::relu, false, Keep::nothing, 0.25f},
    {"Adapters", kAdapter},
    {"AdaptersKeepNothing", kAdapter, Activation::silu, true, Keep::nothing},
    {"AdaptersUngated", kAdapter, Activation::relu, false},
    {"AdaptersThatDropOut", kDropping, Activation::silu, true, Keep::all, 0.25f},
    {"AdaptersThatDropOutKeepNothing", kDropping, Activation::silu, true, Keep::nothing, 0.25f},
};

Mlp make(const Case& t, DType dtype) {
  Mlp mlp;
  mlp.gate_proj = linear("gate", kWidth, kInner, t.form, dtype);
  if (t.gated) mlp.up_proj = linear("up", kWidth, kInner, t.form, dtype);
  mlp.down_proj = linear("down", kInner, kWidth, t.form, dtype);
  mlp.activation = t.activation;
  mlp.dropout = {t.dropout};
  return mlp;
}

class MlpLayer : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, MlpLayer, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

void check(const Case& t, DType dtype, std::int64_t rows) {
  LayerRun run(dtype);
  Mlp mlp = make(t, dtype);
  run.bind(mlp);
  Matrix &x = run.input(rows, kWidth, "x"), &residual = run.input(rows, kWidth, "residual");
  Matrix &y = run.matrix(rows, kWidth, "y"), &dy = run.matrix(rows, kWidth, "dy"),
         &dx = run.matrix(rows, kWidth, "dx");
  const Values<double> before = dx.values();
  const Mlp::Saved saved = mlp.forward(run.c, y, x, residual, t.keep);
  EXPECT_EQ(saved.empty(), t.keep == Keep::nothing);
  const bool reads = saved.empty() || mlp.reads_input();
  mlp.backward(run.c, t.wants_dx ? dx.tensor : Tensor{}, dy, reads ? x.tensor : Tensor{}, saved);

  const auto reference = [&](const auto& in) {
    const auto sum = reference::mlp(in, "", t.activation, in.at("x"), std::size_t(rows),
                                    lora_of(t.form, run.c), double(t.dropout));
    return reference::add(sum, in.at("residual"));
  };
  run.expect_near(y.values(), reference(run.in), 6, "y");
  const int roundings = rows == 1 ? 24 : 8;  // the sums of a single row may cancel out
  run.expect_near(dx.values(), t.wants_dx ? complex_step(reference, run.in, "x", dy.values()) : before,
                  roundings, "dx");
  run.expect_gradients(reference, dy.values(), 8);
}

TEST_P(MlpLayer, IsTheReferenceWithItsGradients) {
  for (const std::int64_t rows : {1, 5}) {
    SCOPED_TRACE(str(rows, " rows"));
    check(std::get<0>(GetParam()), std::get<1>(GetParam()), rows);
  }
}

}  // namespace
}  // namespace ft::test
