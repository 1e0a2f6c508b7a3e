// Linears with the same input: one gradient of the input and, if possible, one product for their adapters.
// tests/lora/siblings_test.cpp counts those products.
#include "engine/layers/siblings.h"

#include "engine/layers/sum.h"
#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kRows = 3, kIn = 64, kOut[] = {12, 4, 4};

struct Case {
  const char* name;
  std::array<LinearForm, 3> forms;
  bool wants_dx = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const LinearForm kAdapter{.rank = 4}, kDropping{.rank = 4, .dropout = 0.25f},
    kTrained{.bias = true, .trained = true};
const Case kCases[] = {{"Adapters", {kAdapter, kAdapter, kAdapter}},
                       {"AdaptersFirst", {kAdapter, kAdapter, kAdapter}, false},
                       {"AdaptersOfTwo", {kAdapter, {}, kAdapter}},
                       {"AdaptersThatDropOut", {kDropping, kDropping, kDropping}},
                       {"Ranks", {kAdapter, LinearForm{.rank = 2}, kAdapter}},
                       {"Trained", {kTrained, kTrained, kTrained}},
                       {"Frozen", {}}};

struct Three {
  Linear q, k, v;
  void visit(Visitor& visitor) { visit_all(visitor, {&q, &k, &v}); }
};

class SiblingLinears : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, SiblingLinears, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(SiblingLinears, AreTheReferenceWithItsGradients) {
  const auto& [t, dtype] = GetParam();
  LayerRun run(dtype);
  const char* names[] = {"q", "k", "v"};
  Three all;
  Linear* linears[] = {&all.q, &all.k, &all.v};
  for (std::size_t i = 0; i < 3; ++i) *linears[i] = linear(names[i], kIn, kOut[i], t.forms[i], dtype);
  run.bind(all);
  Matrix &x = run.input(kRows, kIn, "x"), &dx = run.matrix(kRows, kIn, "dx");
  std::vector<Matrix*> y, dy;
  for (std::size_t i = 0; i < 3; ++i) {
    y.push_back(&run.matrix(kRows, kOut[i], str("y", i)));
    dy.push_back(&run.matrix(kRows, kOut[i], str("dy", i)));
  }
  const Values<double> before = dx.values();
  const Tensor u = forward_all(run.c, {{all.q, *y[0]}, {all.k, *y[1]}, {all.v, *y[2]}}, x);
  {
    Scope scope(run.c.scratch);
    Sum sum(run.c.ops, t.wants_dx ? dx.tensor : Tensor{});
    backward_all(run.c, sum, {{all.q, *dy[0]}, {all.k, *dy[1]}, {all.v, *dy[2]}}, x, u);
    sum.run();
  }
  const auto reference = [&](const auto& in) {
    auto outputs = in.at("x");
    outputs.clear();
    for (std::size_t i = 0; i < 3; ++i) {
      const auto one = reference::linear(in, names[i], in.at("x"), kRows, lora_of(t.forms[i], run.c));
      outputs.insert(outputs.end(), one.begin(), one.end());
    }
    return outputs;
  };
  Values<double> got, from;
  for (std::size_t i = 0; i < 3; ++i) {
    for (const double v : y[i]->values()) got.push_back(v);
    for (const double v : dy[i]->values()) from.push_back(v);
  }
  run.expect_near(got, reference(run.in), 3, "y");
  run.expect_near(dx.values(), t.wants_dx ? complex_step(reference, run.in, "x", from) : before, 4, "dx");
  run.expect_gradients(reference, from, 4);
}

}  // namespace
}  // namespace ft::test
