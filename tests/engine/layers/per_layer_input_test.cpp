// PerLayerInput: the gradients of the stream and of the layer's own input, trained, adapted and frozen.
#include "engine/layers/per_layer_input.h"

#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kRows = 5, kWidth = 9, kInner = 3, kLayers = 3;

struct Case {
  const char* name;
  LinearForm form;
  bool wants_dx = true, wants_dinput = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {{"Trained", {.trained = true}},
                       {"Adapters", {.rank = 2}},
                       {"Frozen", {}},
                       {"First", {.trained = true}, false, true},
                       {"OfFrozenInputs", {.rank = 2}, true, false}};

class PerLayerInputLayer : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, PerLayerInputLayer, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(PerLayerInputLayer, IsTheReferenceWithItsGradients) {
  const auto& [t, dtype] = GetParam();
  LayerRun run(dtype);
  PerLayerInput layer{.gate = linear("gate", kWidth, kInner, t.form, dtype),
                      .projection = linear("projection", kInner, kWidth, t.form, dtype),
                      .layer = 1};
  run.bind(layer);
  Matrix &x = run.input(kRows, kWidth, "x"), &residual = run.input(kRows, kWidth, "residual"),
         &inputs = run.input(kRows, kLayers * kInner, "inputs");
  Matrix &y = run.matrix(kRows, kWidth, "y"), &dy = run.matrix(kRows, kWidth, "dy"),
         &dx = run.matrix(kRows, kWidth, "dx"), &dinputs = run.matrix(kRows, kLayers * kInner, "dinputs");
  dinputs.assign(Values<double>(dinputs.values().size()));
  const Values<double> before = dx.values();
  const PerLayerInput::Saved saved = layer.forward(run.c, y, x, residual, layer.own(inputs));
  layer.backward(run.c, t.wants_dx ? dx.tensor : Tensor{}, dy, layer.reads_input() ? x.tensor : Tensor{},
                 layer.own(inputs), t.wants_dinput ? layer.own(dinputs) : Tensor{}, saved);

  const auto reference = [&]<class V>(const Named<V>& in) {
    const auto apply = [&](const char* name, const Values<V>& to) {
      return reference::linear(in, name, to, std::size_t(kRows), lora_of(t.form, run.c));
    };
    Values<V> mixed = apply("gate", in.at("x"));
    for (std::size_t i = 0; i < mixed.size(); ++i)
      mixed[i] = reference::activate(Activation::gelu_tanh, mixed[i]) *
                 in.at("inputs")[i / kInner * kLayers * kInner + kInner + i % kInner];
    return reference::add(apply("projection", mixed), in.at("residual"));
  };
  const Values<double> d = dy.values();
  run.expect_near(y.values(), reference(run.in), 4, "y");
  run.expect_near(dx.values(), t.wants_dx ? complex_step(reference, run.in, "x", d) : before, 8, "dx");
  const Values<double> none(dinputs.values().size());
  run.expect_near(dinputs.values(), t.wants_dinput ? complex_step(reference, run.in, "inputs", d) : none, 8,
                  "dinputs");
  run.expect_gradients(reference, d, 8);
}

}  // namespace
}  // namespace ft::test
