// Linear with a dense or 4-bit weight, a bias and an adapter, each trained or not.
#include "engine/layers/linear.h"

#include "engine/formats/four_bit.h"
#include "engine/formats/fp8.h"
#include "engine/layers/sum.h"
#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

struct Case {
  const char* name;
  LinearForm form;
  bool wants_dx = true, residual = false;
  float alpha = 1;
  bool train = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"Trained", {.trained = true}},
    {"TrainedWithBias", {.bias = true, .trained = true}},
    {"TrainedFirst", {.bias = true, .trained = true}, false},
    {"Frozen", {}},
    {"FrozenWithBias", {.bias = true}, true, true},
    {"Residual", {.trained = true}, true, true},
    {"BiasAndResidual", {.bias = true, .trained = true}, true, true},
    {"Scaled", {.trained = true, .rank = 3}, true, false, 0.3f},
    {"Adapter", {.rank = 4}},
    {"AdapterOfAll", {.bias = true, .trained = true, .rank = 3}, true, true},
    {"AdapterFirst", {.bias = true, .rank = 1}, false},
    {"AdapterDropout", {.rank = 4, .dropout = 0.25f}, true, true},
    {"AdapterDropoutFirst", {.rank = 4, .dropout = 0.25f}, false},
    {"AdapterDropoutEvaluated", {.rank = 4, .dropout = 0.25f}, true, false, 1, false},
    {"AdapterBias", {.rank = 4, .lora_bias = true}},
    {"AdapterBiasAndResidual", {.rank = 3, .lora_bias = true}, true, true},
    {"AdapterBiasOfAll", {.bias = true, .trained = true, .rank = 3, .lora_bias = true}, true, true},
    {"AdapterBiasScaled", {.rank = 3, .lora_bias = true}, true, false, 0.3f},
    {"AdapterBiasDropoutFirst", {.bias = true, .rank = 4, .dropout = 0.25f, .lora_bias = true}, false},
    {"Magnitudes", {.rank = 4, .dora = true}},
    {"MagnitudesBiasAndResidual", {.bias = true, .rank = 3, .dora = true}, true, true},
    {"MagnitudesScaled", {.rank = 3, .scale = 0.5f, .dora = true}, true, false, 0.3f},
    {"MagnitudesFirst", {.bias = true, .rank = 1, .dora = true}, false},
    {"MagnitudesDropout", {.bias = true, .rank = 4, .dropout = 0.25f, .dora = true}, true, true},
    {"MagnitudesDropoutFirst", {.rank = 4, .dropout = 0.25f, .dora = true}, false},
    {"MagnitudesDropoutEvaluated", {.rank = 4, .dropout = 0.25f, .dora = true}, true, false, 1, false},
    {"Hira", {.rank = 4, .kind = &lora::kinds::kHira}},
    {"HiraResidual", {.bias = true, .rank = 3, .kind = &lora::kinds::kHira}, true, true},
    {"HiraFirst", {.bias = true, .rank = 2, .kind = &lora::kinds::kHira}, false},
    {"HiraScaled", {.rank = 3, .kind = &lora::kinds::kHira}, true, false, 0.3f},
    {"HiraDropout", {.rank = 4, .dropout = 0.25f, .kind = &lora::kinds::kHira}, true, true},
    {"HiraDropoutFirst", {.rank = 4, .dropout = 0.25f, .kind = &lora::kinds::kHira}, false},
    {"HiraDropoutEvaluated",
     {.rank = 4, .dropout = 0.25f, .kind = &lora::kinds::kHira},
     true,
     false,
     1,
     false},
    {"Shira", {.bias = true, .rank = 1, .kind = &lora::kinds::kShira}},
    {"ShiraOfAll", {.trained = true, .rank = 1, .kind = &lora::kinds::kShira}, true, true},
    {"ShiraScaled", {.rank = 1, .kind = &lora::kinds::kShira}, true, false, 0.3f},
    {"Oft", {.rank = 3, .kind = &lora::kinds::kOft}},
    {"OftOfAll", {.bias = true, .trained = true, .rank = 2, .kind = &lora::kinds::kOft}, true, true},
    {"OftFirst", {.bias = true, .rank = 4, .kind = &lora::kinds::kOft}, false},
    {"OftScaled", {.rank = 3, .kind = &lora::kinds::kOft}, true, false, 0.3f},
    {"OftShared", {.rank = 3, .kind = &lora::kinds::kOft, .shared = true, .terms = 3}},
    {"OftOfTwoTerms", {.rank = 3, .kind = &lora::kinds::kOft, .terms = 2}},
    {"OftOfEightTerms", {.rank = 3, .kind = &lora::kinds::kOft, .terms = 8}},
    {"Miss", {.rank = 4, .kind = &lora::kinds::kMiss}},
    {"MissOfAll", {.bias = true, .trained = true, .rank = 3, .kind = &lora::kinds::kMiss}},
    {"MissFirst", {.bias = true, .rank = 2, .kind = &lora::kinds::kMiss}, false},
    {"MissScaled", {.rank = 20, .kind = &lora::kinds::kMiss}, true, false, 0.3f},
    {"MissDropout", {.rank = 4, .dropout = 0.25f, .kind = &lora::kinds::kMiss}, true, true},
    {"MissDropoutFirst", {.rank = 4, .dropout = 0.25f, .kind = &lora::kinds::kMiss}, false},
    {"MissDropoutEvaluated",
     {.rank = 4, .dropout = 0.25f, .kind = &lora::kinds::kMiss},
     true,
     false,
     1,
     false},
};

struct Size {
  std::int64_t rows, in, out;
};
constexpr Size kSizes[] = {{1, 17, 5}, {6, 9, 13}, {1, 1, 1}};

// Returns the sums of squares of the rows of the weight that bind() will make.
Values<double> squares_of_rows(const Size& size, DType dtype) {
  Matrix w(size.out, size.in, dtype);
  w.assign(reference::times(random_values("module.weight", size.out * size.in), 0.5));
  Values<double> squares;
  for (std::int64_t o = 0; o < size.out; ++o) {
    squares.push_back(0);
    for (std::int64_t i = 0; i < size.in; ++i) squares.back() += w.get(o, i) * w.get(o, i);
  }
  return squares;
}

// Gives SHiRA's values their places, and OFT's matrices values with which its series converges.
void choose_values(LayerRun& run, const Linear& layer) {
  if (const auto* oft = dynamic_cast<const lora::OftAdapter*>(layer.adapter.get()))
    run.stored[oft->above.name] =
        reference::times(random_values(oft->above.name, oft->above.shape.numel()), 0.1);
  const auto* shira = dynamic_cast<const lora::ShiraAdapter*>(layer.adapter.get());
  if (!shira) return;
  const std::vector<std::int32_t> places = shira->draw();
  run.stored[shira->places.name] = {places.begin(), places.end()};
}

// Passes x to the backward pass only if the layer says that it reads its input.
void check(LayerRun& run, const Linear& layer, const Case& t, Size size) {
  Matrix &x = run.input(size.rows, size.in, "x"), &residual = run.input(size.rows, size.out, "residual");
  Matrix &y = run.matrix(size.rows, size.out, "y"), &dy = run.matrix(size.rows, size.out, "dy");
  Matrix &dx = run.matrix(size.rows, size.in, "dx"), before(size.rows, size.in, run.c.dtype);
  before.assign(dx.values());
  const Tensor u = layer.forward(run.c, y, x, t.residual ? residual.tensor : Tensor{}, t.alpha);
  Matrix& scaled = run.matrix(size.rows, size.out, "scaled");  // the caller has to scale dy by alpha
  scaled.assign(reference::times(dy.values(), double(t.alpha)));
  {
    Scope scope(run.c.scratch);
    Sum sum(run.c.ops, t.wants_dx ? dx.tensor : Tensor{});
    layer.backward(run.c, sum, scaled, layer.reads_input() ? x.tensor : Tensor{}, u);
    sum.run();
  }
  const auto reference = [&](const auto& in) {
    auto sum = reference::linear(in, layer.name, in.at("x"), std::size_t(size.rows), lora_of(t.form, run.c));
    sum = reference::times(sum, double(t.alpha));
    return t.residual ? reference::add(sum, in.at("residual")) : sum;
  };
  // Roundings: of u, du, x after dropout, the result, and dy times alpha. With magnitudes also of the product
  // before it is scaled, and of dropout's part of it: a row of five numbers came to 11 in f16. With HiRA also
  // of B A, of its product with W, and of their gradients; with OFT of the rotated x and its gradient.
  const bool wide = t.form.kind == &lora::kinds::kHira || t.form.kind == &lora::kinds::kOft;
  const int more = t.form.dora || wide ? 3 : 0, dropped = t.form.dora && t.form.dropout > 0 ? 6 : 0;
  run.expect_near(y.values(), reference(run.in), 3 + more + dropped, "y");
  run.expect_near(dx.values(),
                  t.wants_dx ? complex_step(reference, run.in, "x", dy.values()) : before.values(), 4 + more,
                  "dx");
  run.expect_gradients(reference, dy.values(), 4 + more);
}

class LinearLayer : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, LinearLayer, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(LinearLayer, IsTheReferenceWithItsGradients) {
  const auto& [t, dtype] = GetParam();
  for (const Size size : kSizes) {
    const bool shira = t.form.kind == &lora::kinds::kShira;  // has more values than one element
    const bool oft = t.form.kind == &lora::kinds::kOft;      // a single input has nothing to rotate
    if (size.out == 1 && (dtype != DType::f32 || t.form.dora || shira || oft))
      continue;  // a single sum may cancel
    SCOPED_TRACE(str(size.rows, " x ", size.in, " x ", size.out));
    LayerRun run(dtype, t.train);
    Linear layer = linear("module", size.in, size.out, t.form, dtype);
    if (t.form.dora) run.stored["module.lora_row_squares"] = squares_of_rows(size, dtype);
    choose_values(run, layer);
    run.bind(layer);
    check(run, layer, t, size);
  }
}

// A step of two passes over other inputs. overwrites: the first product overwrites the gradient.
Named<double> gradients_of_a_step(DType dtype, bool overwrites) {
  LayerRun run(dtype);
  Linear layer = linear("module", 9, 13, {.bias = true, .trained = true}, dtype);
  Parameter& weight = static_cast<DenseWeight&>(*layer.weight).parameter;
  EXPECT_TRUE(weight.from_products);
  weight.from_products = overwrites;
  run.bind(layer);
  run.store.begin_step();
  EXPECT_EQ(weight.grad_unset, overwrites);
  EXPECT_EQ(weight.grad.as<float>()[0] == 0, !overwrites);
  for (const std::int64_t rows : {0, 6, 1, 17}) {
    const auto name = [&](const char* what) { return str(what, rows); };
    Matrix &x = run.matrix(rows, 9, name("x")), &dy = run.matrix(rows, 13, name("dy"));
    Scope scope(run.c.scratch);
    Sum sum(run.c.ops, Tensor{});
    layer.backward(run.c, sum, dy, x, Tensor{});
    EXPECT_EQ(weight.grad_unset, overwrites && rows == 0);
  }
  return run.gradients();
}

TEST(LinearLayers, TheFirstProductOverwritesTheGradient) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    EXPECT_EQ(gradients_of_a_step(dtype, true), gradients_of_a_step(dtype, false));
}

class AdaptedLinear : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, AdaptedLinear, kTypes, name_of_type);

// A pass without adapters has the same bits as a pass with an adapter whose B is 0, even if the sum takes
// several steps.
TEST_P(AdaptedLinear, WithoutItsAdapterHasTheBitsOfItsStart) {
  const Size size{40, 771, 48};
  LayerRun run(GetParam());
  Linear layer = linear("module", size.in, size.out, {.rank = 16}, GetParam());
  run.stored["module.lora_B.weight"] = Values<double>(std::size_t(size.out * 16), 0);
  run.bind(layer);
  Matrix &x = run.input(size.rows, size.in, "x"), &with = run.matrix(size.rows, size.out, "with"),
         &without = run.matrix(size.rows, size.out, "without");
  layer.forward(run.c, with, x);
  run.c.adapters = false;
  layer.forward(run.c, without, x);
  EXPECT_EQ(without.values(), with.values());
}

TEST_P(AdaptedLinear, WithoutAnAdaptersBiasHasTheBitsOfAZeroBias) {
  const Size size{7, 33, 24};
  LayerRun run(GetParam());
  Linear layer = linear("module", size.in, size.out, {.rank = 4, .lora_bias = true}, GetParam());
  for (const char* zero : {"module.lora_B.weight", "module.lora_B.bias"})
    run.stored[zero] = Values<double>(std::size_t(size.out * (zero[14] == 'w' ? 4 : 1)), 0);
  run.bind(layer);
  Matrix &x = run.input(size.rows, size.in, "x"), &residual = run.matrix(size.rows, size.out, "residual"),
         &with = run.matrix(size.rows, size.out, "with"),
         &without = run.matrix(size.rows, size.out, "without");
  layer.forward(run.c, with, x, residual);
  run.c.adapters = false;
  layer.forward(run.c, without, x, residual);
  EXPECT_EQ(without.values(), with.values());
}

// A weight in 4 bits under an adapter acts as its dequantized matrix, rounded to the type of the activations.
class FourBitLinear : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, FourBitLinear, kTypes, name_of_type);

TEST_P(FourBitLinear, IsTheReferenceWithItsGradients) {
  const Size size{5, 13, 11};
  for (std::size_t i = 0; i < 2 * lora::kinds::kKinds.size(); ++i) {
    const bool nested = i % 2 == 0;
    const FourBitForm form{FourBitBook::nf4, 32, nested};
    const Case t{"", {.bias = true, .rank = 3, .kind = lora::kinds::kKinds[i / 2]}, true, true};
    SCOPED_TRACE(str(t.form.kind->name, nested ? " nested" : ""));
    LayerRun run(GetParam());
    Linear layer = linear("module", size.in, size.out, t.form, GetParam());
    choose_values(run, layer);
    layer.weight = std::make_unique<FourBitWeight>("module.weight", Shape{size.out, size.in}, form);
    const Values<double> drawn = random_values("module.weight", size.out * size.in);
    const FourBitData data = quantize(std::vector<float>(drawn.begin(), drawn.end()), form);
    run.stored["module.weight"] = {data.codes.begin(), data.codes.end()};
    run.stored["module.weight.absmax"] =
        nested ? Values<double>(data.absmax_codes.begin(), data.absmax_codes.end())
               : Values<double>(data.absmax.begin(), data.absmax.end());
    run.stored["module.weight.nested_absmax"] = {data.nested_absmax.begin(), data.nested_absmax.end()};
    run.stored["module.weight.nested_offset"] = {data.nested_offset};
    run.bind(layer);
    std::vector<float> dense(drawn.size());
    dequantize(dense, data);
    Matrix rounded(size.out, size.in, GetParam());
    run.in["module.weight"] = rounded.assign({dense.begin(), dense.end()}).values();
    check(run, layer, t, size);
  }
}

TEST_P(FourBitLinear, IsTheReferenceWithItsGradientsInFp8) {
  const Size size{5, 13, 11};
  for (std::size_t i = 0; i < 2 * lora::kinds::kKinds.size(); ++i) {
    const Fp8Scheme scheme = i % 2 == 0 ? kFp8Channels : kFp8Blocks;
    const Case t{"", {.bias = true, .rank = 3, .kind = lora::kinds::kKinds[i / 2]}, true, true};
    SCOPED_TRACE(t.form.kind->name);
    LayerRun run(GetParam());
    Linear layer = linear("module", size.in, size.out, t.form, GetParam());
    choose_values(run, layer);
    layer.weight = std::make_unique<Fp8Weight>("module.weight", Shape{size.out, size.in}, scheme);
    const Values<double> drawn = random_values("module.weight", size.out * size.in);
    const Fp8Data data =
        quantize_fp8(size.out, size.in, DType::f32, scheme, [&](const Tensor& to, std::int64_t first) {
          for (std::int64_t e = 0; e < to.numel(); ++e)
            to.as<float>()[e] = static_cast<float>(drawn[static_cast<std::size_t>(first + e)]);
        });
    run.stored["module.weight"] = {data.codes.begin(), data.codes.end()};
    run.stored[scheme == kFp8Blocks ? "module.weight_scale_inv" : "module.weight_scale"] = {
        data.scales.begin(), data.scales.end()};
    run.bind(layer);
    std::vector<float> dense(drawn.size());
    dequantize(dense, data);
    Matrix rounded(size.out, size.in, GetParam());
    run.in["module.weight"] = rounded.assign({dense.begin(), dense.end()}).values();
    check(run, layer, t, size);
  }
}

// DoRA's norms are made of the exact A: products in FP8 round rows of x and dy only.
TEST(Fp8Linear, NormsOfDoraAreThoseWithoutProductsInFp8) {
  constexpr std::int64_t kIn = 48, kOut = 32;
  LayerRun run(DType::bf16);
  Linear layer = linear("module", kIn, kOut, {.rank = 4, .dora = true}, DType::bf16);
  auto own = std::make_unique<Fp8Weight>("module.weight", Shape{kOut, kIn}, kFp8Channels);
  Fp8Weight& weight = *own;
  layer.weight = std::move(own);
  Values<double> codes;
  for (std::int64_t i = 0; i < kOut * kIn; ++i) codes.push_back(double(i * 37 % 127));
  run.stored["module.weight"] = codes;
  run.stored["module.weight_scale"] = Values<double>(std::size_t(kOut), 1e-3);
  run.stored["module.lora_row_squares"] = Values<double>(std::size_t(kOut), 400);
  run.bind(layer);
  run.ops.reserve_dense(1 << 20);
  const auto norms = [&] {
    Scope scope(run.c.scratch);
    return values_of(dynamic_cast<const lora::DoraAdapter&>(*layer.adapter).factors(run.c, weight).scale);
  };
  const Values<double> want = norms();
  weight.rows_in_fp8 = true;
  EXPECT_EQ(norms(), want);
}

}  // namespace
}  // namespace ft::test
