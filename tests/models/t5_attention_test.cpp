// T5's attention with its relative bias, in the encoder and the decoder, and the decoder's cross-attention.
#include "models/t5/attention.h"

#include "models/t5/relative_bias.h"
#include "tests/engine/layers/layer_fixture.h"

namespace ft::t5 {
namespace {

using namespace test;

constexpr std::int64_t kWidth = 6, kBuckets = 8, kMaxDistance = 11;
constexpr Heads kHeads{2, 2, 4};

struct Case {
  const char* name;
  LinearForm form;
  bool causal = false;
  std::vector<std::int32_t> starts{0, 3, 4, 18}, key_starts{};
  float dropout = 0;
  bool wants_dx = true, wants_d_memory = true, trains_bias = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const LinearForm kTrained{.trained = true};
const Case kCases[] = {
    {"Encoder", kTrained},
    {"Decoder", kTrained, true},
    {"EncoderOfOneToken", kTrained, false, {0, 1}},
    {"EncoderFirst", kTrained, false, {0, 5}, {}, 0, false},
    {"EncoderFrozen", {}, false, {0, 3, 9}, {}, 0, true, true, false},
    {"EncoderAdapters", {.rank = 3}, false, {0, 3, 9}, {}, 0.25f, true, true, false},
    {"EncoderDropout", kTrained, false, {0, 3, 9}, {}, 0.25f},
    {"DecoderDropout", kTrained, true, {0, 3, 9}, {}, 0.25f},
    {"Cross", kTrained, false, {0, 3, 4}, {0, 5, 12}},
    {"CrossDropout", kTrained, false, {0, 3, 4}, {0, 5, 12}, 0.25f},
    {"CrossOfFrozenEncoder", kTrained, false, {0, 3, 4}, {0, 2, 3}, 0, true, false},
    {"CrossFirst", kTrained, false, {0, 3, 4}, {0, 2, 3}, 0, false},
    {"CrossFrozen", {}, false, {0, 3, 4}, {0, 2, 3}},
    {"CrossAdapters", {.rank = 3, .dropout = 0.25f}, false, {0, 3, 4}, {0, 2, 3}},
};

// The bucket as in the code of the T5 paper.
std::size_t bucket(std::int64_t distance, bool bidirectional) {
  const std::int64_t of_a_side = bidirectional ? kBuckets / 2 : kBuckets, exact = of_a_side / 2;
  const std::int64_t upper = bidirectional && distance > 0 ? of_a_side : 0;
  const std::int64_t n = bidirectional ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  if (n < exact) return std::size_t(upper + n);
  const double grown = std::log(double(n) / double(exact)) / std::log(double(kMaxDistance) / double(exact));
  return std::size_t(upper +
                     std::min(of_a_side - 1, exact + std::int64_t(grown * double(of_a_side - exact))));
}

template <class V>
Values<V> expected(const Named<V>& in, const Case& t, const Ctx& c, Random random) {
  const bool cross = !t.key_starts.empty();
  const Values<V>& memory = in.at(cross ? "memory" : "x");
  reference::Attention attention{kHeads, t.starts, t.causal};
  attention.key_starts = t.key_starts;
  attention.dropout = double(t.dropout);
  attention.random = random;
  Values<V> bias, y, lse;
  if (!cross) {
    attention.reach = t.starts.back();
    for (std::int64_t d = -attention.reach; d <= attention.reach; ++d)
      for (std::size_t h = 0; h < std::size_t(kHeads.query); ++h)
        bias.push_back(in.at("bias")[bucket(d, !t.causal) * std::size_t(kHeads.query) + h]);
  }
  const auto project = [&](const char* name, const Values<V>& x) {
    return reference::linear(in, name, x, x.size() / kWidth, lora_of(t.form, c));
  };
  attention.forward(y, lse, project("q", in.at("x")), project("k", memory), project("v", memory), bias);
  const auto rows = std::size_t(t.starts.back());
  return reference::add(reference::linear(in, "o", y, rows, lora_of(t.form, c)), in.at("residual"));
}

class T5Attention : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, T5Attention, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(T5Attention, IsTheReferenceWithItsGradients) {
  const auto& [t, dtype] = GetParam();
  const bool cross = !t.key_starts.empty();
  const std::int64_t rows = t.starts.back(), inner = kHeads.query * kHeads.width;
  LayerRun run(dtype);
  Attention layer;
  layer.q = linear("q", kWidth, inner, t.form, dtype);
  layer.k = linear("k", kWidth, inner, t.form, dtype);
  layer.v = linear("v", kWidth, inner, t.form, dtype);
  layer.o = linear("o", inner, kWidth, t.form, dtype);
  layer.heads = kHeads;
  RelativeBias bias{
      {.name = "bias", .shape = {kBuckets, kHeads.query}, .dtype = dtype}, !t.causal, kMaxDistance};
  bias.weight.trainable = !cross && t.trains_bias;
  bias.unit = run.add(bias);
  run.bind(layer);
  Matrix &x = run.input(rows, kWidth, "x"), &residual = run.input(rows, kWidth, "residual");
  Matrix &y = run.matrix(rows, kWidth, "y"), &dy = run.matrix(rows, kWidth, "dy"),
         &dx = run.matrix(rows, kWidth, "dx");
  const Values<double> before = dx.values();
  const Random random{9};
  Over over{x, {}, {t.starts, t.causal, 0, t.key_starts}, {1, {}, t.dropout, random}, {}};
  Matrix d_memory(cross ? t.key_starts.back() : 1, kWidth, DType::f32);
  const Values<double> d_before = d_memory.randomize(3).values();
  const Scope scratch(run.c.scratch);
  RelativeBias::Pass pass;
  if (cross) {
    over.memory = run.input(t.key_starts.back(), kWidth, "memory");
    if (t.wants_d_memory) over.d_memory = d_memory;
  } else {
    pass = bias.take(run.c, rows);
    bias.forward(run.c, run.store, pass);
    bias.begin_backward(run.c, pass);
    over.scores.bias = pass.bias;
    over.dbias = pass.dbias;
  }
  const Attention::Saved saved = layer.forward(run.c, y, x, residual, over);
  layer.backward(run.c, t.wants_dx ? dx.tensor : Tensor{}, dy, x, saved, over);
  bias.backward(run.c, run.store, pass);

  const auto reference = [&](const auto& in) { return expected(in, t, run.c, random); };
  run.expect_near(y.values(), reference(run.in), 6, "y");
  run.expect_near(dx.values(), t.wants_dx ? complex_step(reference, run.in, "x", dy.values()) : before, 12,
                  "dx");
  run.expect_gradients(reference, dy.values(), 12);
  if (!cross) return;
  run.expect_near(d_memory.values(),
                  t.wants_d_memory
                      ? reference::add(d_before, complex_step(reference, run.in, "memory", dy.values()))
                      : d_before,
                  12, "d_memory");
}

}  // namespace
}  // namespace ft::t5
