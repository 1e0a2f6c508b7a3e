// Linears of quantization-aware training: they compute with the values of GGUF's blocks, and their gradients
// pass straight through.
#include "engine/layers/fake_quantized.h"

#include "engine/formats/gguf/ggml_blocks.h"
#include "engine/layers/siblings.h"
#include "engine/layers/sum.h"
#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

// Returns the inputs with W + s B A in the values of the format, and adapters that add nothing.
Named<double> quantized(Named<double> in, const std::string& module, BlockFormat format, double scale,
                        std::int64_t cols) {
  Values<double>& w = in.at(module + ".weight");
  if (const auto b = in.find(module + ".lora_B.weight"); b != in.end()) {
    const Values<double>& a = in.at(module + ".lora_A.weight");
    const std::size_t rank = a.size() / std::size_t(cols);
    for (std::size_t i = 0; i < w.size(); ++i)
      for (std::size_t k = 0; k < rank; ++k)
        w[i] += scale * b->second[i / std::size_t(cols) * rank + k] *
                a[k * std::size_t(cols) + i % std::size_t(cols)];
    std::fill(b->second.begin(), b->second.end(), 0);
  }
  const GgmlForm& form = *form_of(format == BlockFormat::q4_0 ? GgmlType::q4_0 : GgmlType::q8_0);
  for (std::size_t at = 0; at < w.size(); at += kBlockOfCodes) {
    float x[kBlockOfCodes];
    for (std::size_t i = 0; i < kBlockOfCodes; ++i) x[i] = static_cast<float>(w[at + i]);
    std::uint8_t block[64];
    form.quantize(x, block);
    form.dequantize(block, x);
    std::copy_n(x, kBlockOfCodes, w.begin() + std::ptrdiff_t(at));
  }
  return in;
}

struct Case {
  const char* name;
  LinearForm form;
  BlockFormat format = BlockFormat::q4_0;
  bool wants_dx = true, residual = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"Trained", {.bias = true, .trained = true}},
    {"TrainedInBytes", {.trained = true}, BlockFormat::q8_0, true, true},
    {"TrainedFirst", {.trained = true}, BlockFormat::q4_0, false},
    {"Frozen", {.bias = true}},
    {"Adapter", {.bias = true, .rank = 4}, BlockFormat::q4_0, true, true},
    {"AdapterInBytes", {.rank = 3, .scale = 0.5f}, BlockFormat::q8_0},
    {"AdapterFirst", {.rank = 2}, BlockFormat::q4_0, false},
    {"AdapterOfAll", {.bias = true, .trained = true, .rank = 4}},
};

class FakeQuantizedLinear : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, FakeQuantizedLinear, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(FakeQuantizedLinear, HasQuantizedProductsAndStraightGradients) {
  const auto& [t, dtype] = GetParam();
  constexpr std::int64_t kRows = 5, kIn = 64, kOut = 13;
  LayerRun run(dtype);
  Linear layer = linear("module", kIn, kOut, t.form, dtype);
  layer.fake_format = t.format;
  run.bind(layer);
  Matrix &x = run.input(kRows, kIn, "x"), &residual = run.input(kRows, kOut, "residual");
  Matrix &y = run.matrix(kRows, kOut, "y"), &dy = run.matrix(kRows, kOut, "dy");
  Matrix& dx = run.matrix(kRows, kIn, "dx");
  const Values<double> before = dx.values();
  const Tensor u = layer.forward(run.c, y, x, t.residual ? residual.tensor : Tensor{});
  {
    Scope scope(run.c.scratch);
    Sum sum(run.c.ops, t.wants_dx ? dx.tensor : Tensor{});
    layer.backward(run.c, sum, dy, layer.reads_input() ? x.tensor : Tensor{}, u);
    sum.run();
  }
  const auto reference = [&](const auto& in) {
    const auto sum = reference::linear(in, "module", in.at("x"), kRows, lora_of(t.form, run.c));
    return t.residual ? reference::add(sum, in.at("residual")) : sum;
  };
  const Named<double> deployed = quantized(run.in, "module", t.format, t.form.scale, kIn);
  run.expect_near(y.values(), reference(deployed), 3, "y");
  EXPECT_GT(nmse(y.values(), reference(run.in)), 1e-6) << "the weight is not quantized";
  run.expect_near(dx.values(), t.wants_dx ? complex_step(reference, deployed, "x", dy.values()) : before, 4,
                  "dx");
  run.expect_gradients(reference, dy.values(), 4);
}

TEST(FakeQuantized, WithoutAdaptersTheBaseAloneIsQuantized) {
  constexpr std::int64_t kRows = 2, kIn = 32, kOut = 7;
  LayerRun run(DType::f32, false);
  Linear layer = linear("module", kIn, kOut, {.rank = 4}, DType::f32);
  layer.fake_format = BlockFormat::q4_0;
  run.bind(layer);
  Matrix &x = run.input(kRows, kIn, "x"), &y = run.matrix(kRows, kOut, "y");
  run.c.adapters = false;
  layer.forward(run.c, y, x);
  const Named<double> base = quantized(run.in, "module", BlockFormat::q4_0, 0, kIn);
  run.expect_near(y.values(), reference::linear(base, "module", base.at("x"), kRows), 1, "y");
}

struct Three {
  Linear q, k, v;
  void visit(Visitor& visitor) { visit_all(visitor, {&q, &k, &v}); }
};

// The adapters' matrices are contiguous, so that one product has the gradients of all of them.
TEST(FakeQuantized, SiblingsShareTheProductsOfTheirAdapters) {
  constexpr std::int64_t kRows = 3, kIn = 64, kOut[] = {12, 4, 4};
  constexpr LinearForm kForm{.rank = 4};
  LayerRun run(DType::f32);
  const char* names[] = {"q", "k", "v"};
  Three all;
  Linear* linears[] = {&all.q, &all.k, &all.v};
  for (std::size_t i = 0; i < 3; ++i) {
    *linears[i] = linear(names[i], kIn, kOut[i], kForm, DType::f32);
    linears[i]->fake_format = BlockFormat::q4_0;
  }
  run.bind(all);
  Matrix &x = run.input(kRows, kIn, "x"), &dx = run.matrix(kRows, kIn, "dx");
  std::vector<Matrix*> y, dy;
  for (std::size_t i = 0; i < 3; ++i) {
    y.push_back(&run.matrix(kRows, kOut[i], str("y", i)));
    dy.push_back(&run.matrix(kRows, kOut[i], str("dy", i)));
  }
  const Tensor u = forward_all(run.c, {{all.q, *y[0]}, {all.k, *y[1]}, {all.v, *y[2]}}, x);
  {
    Scope scope(run.c.scratch);
    Sum sum(run.c.ops, dx);
    backward_all(run.c, sum, {{all.q, *dy[0]}, {all.k, *dy[1]}, {all.v, *dy[2]}}, x, u);
    sum.run();
  }
  const auto reference = [&](const auto& in) {
    auto outputs = in.at("x");
    outputs.clear();
    for (const char* name : names) {
      const auto one = reference::linear(in, name, in.at("x"), kRows, lora_of(kForm, run.c));
      outputs.insert(outputs.end(), one.begin(), one.end());
    }
    return outputs;
  };
  Named<double> deployed = run.in;
  for (const char* name : names) deployed = quantized(deployed, name, BlockFormat::q4_0, kForm.scale, kIn);
  Values<double> got, from;
  for (std::size_t i = 0; i < 3; ++i) {
    for (const double v : y[i]->values()) got.push_back(v);
    for (const double v : dy[i]->values()) from.push_back(v);
  }
  run.expect_near(got, reference(deployed), 3, "y");
  run.expect_near(dx.values(), complex_step(reference, deployed, "x", from), 4, "dx");
  run.expect_gradients(reference, from, 4);
}

}  // namespace
}  // namespace ft::test
