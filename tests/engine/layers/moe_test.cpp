// Moe: experts that are trained or adapted, one by one or all at once, with statistics of the routers, a
// shared expert, and any tensors kept.
#include "engine/layers/moe.h"

#include "lora/experts.h"
#include "tests/engine/layers/layer_fixture.h"
#include "tests/reference/routing.h"

namespace ft::test {
namespace {

constexpr std::int64_t kWidth = 7, kInner = 5, kExperts = 4, kRows = 9;

struct Case {
  const char* name;
  LinearForm form;
  std::int64_t choices = 2;
  bool normalised = true, balance = false, shared = false, all_at_once = false;
  Keep keep = Keep::all;
  double capacity_factor = 0;
  bool sigmoid = false;  // in two groups, with a bias for the choice, and no gate of the shared expert
  RouteRule rule() const {
    if (!sigmoid) return {.normalised = normalised};
    return {.sigmoid = true, .normalised = normalised, .scale = 1.5f, .groups = 2, .kept = 1, .best = 2};
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const LinearForm kTrained{.trained = true}, kAdapter{.rank = 2},
    kHira{.rank = 2, .kind = &lora::kinds::kHira}, kOft{.rank = 2, .kind = &lora::kinds::kOft};
const Case kCases[] = {
    {"Trained", kTrained},
    {"NotNormalised", kTrained, 3, false},
    {"AllExperts", kTrained, kExperts},
    {"Balanced", kTrained, 2, true, true},
    {"MadeAgain", kTrained, 2, true, true, false, false, Keep::nothing},
    {"Shared", kTrained, 2, false, false, true},
    {"SharedMadeAgain", kTrained, 2, false, false, true, false, Keep::but_the_mlp},
    {"Adapted", kAdapter},
    {"AdaptedByHira", kHira},
    {"AdaptedByOft", kOft},
    {"AdaptedAtOnce", {}, 2, true, false, false, true},
    {"AdaptedAtOnceMadeAgain", {}, 2, true, true, false, true, Keep::nothing},
    {"Limited", kTrained, 2, true, true, false, false, Keep::all, 1.0},
    {"LimitedToOneRowEach", kTrained, 3, false, false, false, false, Keep::nothing, 0.1},
    {"LimitedAdaptedAtOnce", {}, 2, true, false, true, true, Keep::nothing, 0.7},
    {"Sigmoids", kTrained, 2, true, false, true, false, Keep::all, 0, true},
    {"SigmoidsMadeAgain", kTrained, 1, false, false, true, false, Keep::nothing, 0, true},
    {"SigmoidsAdapted", kAdapter, 2, true, false, true, false, Keep::all, 0, true},
};

std::string expert(std::int64_t e) { return str("experts.", e, "."); }

Moe make(const Case& t, DType dtype) {
  Moe m;
  m.name = "moe";
  m.gate = linear("router", kWidth, kExperts, t.form, t.sigmoid ? DType::f32 : dtype);
  for (std::int64_t e = 0; e < kExperts; ++e)
    m.experts.push_back({linear(expert(e) + "gate", kWidth, kInner, t.form, dtype),
                         linear(expert(e) + "up", kWidth, kInner, t.form, dtype),
                         linear(expert(e) + "down", kInner, kWidth, t.form, dtype)});
  m.choices = t.choices;
  m.rule = t.rule();
  m.gate.wide = t.sigmoid;
  if (t.sigmoid) m.correction = Parameter{.name = "correction", .shape = {kExperts}, .constant = true};
  m.capacity_factor = t.capacity_factor;
  if (t.all_at_once) lora::adapt_experts(m, {3, 2, 2, 0.5f}, dtype);
  if (!t.shared) return m;
  SharedExpert& shared = m.shared.emplace();
  shared.mlp.gate_proj = linear("shared.gate", kWidth, kInner, t.form, dtype);
  shared.mlp.up_proj = linear("shared.up", kWidth, kInner, t.form, dtype);
  shared.mlp.down_proj = linear("shared.down", kInner, kWidth, t.form, dtype);
  if (!t.sigmoid) shared.gate = linear("shared_gate", kWidth, 1, t.form, dtype);
  return m;
}

const std::string kModule = "base_model.model.moe.experts";

// Adds s B_e A_e to W_e, as PEFT's einsum("o r e, e r i -> e o i"). `first`: the first row of B_e that
// belongs to this weight.
template <class V>
void merge(reference::Named<V>& in, const std::string& module, const std::string& weight, std::size_t e,
           std::size_t r, std::size_t first, double scale) {
  const Values<V>&a = in.at(module + ".lora_A.weight"), &b = in.at(module + ".lora_B.weight");
  Values<V>& w = in.at(weight);
  const std::size_t n = kExperts, width = a.size() / (n * r), rows = w.size() / width;
  for (std::size_t o = 0; o < rows; ++o)
    for (std::size_t j = 0; j < r; ++j)
      for (std::size_t i = 0; i < width; ++i)
        w[o * width + i] += scale * b[(first + o) * r * n + j * n + e] * a[(e * r + j) * width + i];
}

template <class V>
reference::Named<V> merged(reference::Named<V> in) {
  for (std::size_t e = 0; e < std::size_t(kExperts); ++e) {
    const std::string at = expert(std::int64_t(e));
    merge(in, kModule + ".base_layer", at + "gate.weight", e, 3, 0, 2);
    merge(in, kModule + ".base_layer", at + "up.weight", e, 3, kInner, 2);
    merge(in, kModule, at + "down.weight", e, 2, 0, 0.5);
  }
  return in;
}

class MoeLayer : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(, MoeLayer, testing::Combine(testing::ValuesIn(kCases), testing::Values(DType::f32)),
                         name_of_case<Case>);

TEST_P(MoeLayer, IsTheReferenceWithItsGradients) {
  const Case& t = std::get<0>(GetParam());
  LayerRun run(std::get<1>(GetParam()));
  Moe moe = make(t, run.c.dtype);
  run.bind(moe);
  Matrix &x = run.input(kRows, kWidth, "x"), &residual = run.input(kRows, kWidth, "residual");
  Matrix &y = run.matrix(kRows, kWidth, "y"), &dy = run.matrix(kRows, kWidth, "dy"),
         &dx = run.matrix(kRows, kWidth, "dx");
  const RouterBalanceLoss balance{1, kExperts, t.choices, t.balance ? 0.25f : 0};
  const RouterStatistics routers = balance.take(run.c);
  const RouterStatistics* noted = t.balance ? &routers : nullptr;
  run.c.tokens_weight = 3;
  const Tensor loss = run.c.saved.take({1}, DType::f64);
  *loss.as<double>() = 0;
  const Moe::Saved saved = moe.forward(run.c, y, x, residual, noted, t.keep);
  EXPECT_EQ(saved.kept, t.keep == Keep::all);
  if (t.balance) balance.add(run.c, loss, routers, 1);
  moe.backward(run.c, dx, dy, x, saved, noted);

  // The reference returns the routers' loss as one more element, whose gradient is 1.
  const auto reference = [&](const auto& given) {
    const auto in = t.all_at_once ? merged(given) : given;
    using V = typename std::decay_t<decltype(in.at("x"))>::value_type;
    std::vector<Values<V>> p;
    Values<V> sum = reference::experts(in, "router", "experts.", std::size_t(t.choices), t.rule(), in.at("x"),
                                       kRows, lora_of(t.form, run.c), &p, t.capacity_factor);
    if (t.shared) {
      Values<V> own =
          reference::mlp(in, "shared.", Activation::silu, in.at("x"), kRows, lora_of(t.form, run.c));
      const Values<V> gate =
          t.sigmoid ? Values<V>{} : reference::linear(in, "shared_gate", in.at("x"), kRows);
      for (std::size_t i = 0; i < own.size(); ++i)
        sum[i] += t.sigmoid ? own[i] : own[i] / (1.0 + std::exp(-gate[i / kWidth]));
    }
    sum = reference::add(sum, in.at("residual"));
    if (t.balance) sum.push_back(0.75 * reference::balance(p, std::size_t(t.choices)));
    return sum;
  };
  Values<double> want = reference(run.in), slopes = dy.values();
  if (t.balance) {
    EXPECT_NEAR(*loss.as<double>(), want.back(), 1e-6);
    want.pop_back();
    slopes.push_back(1);
  }
  run.expect_near(y.values(), want, 6, "y");
  run.expect_near(dx.values(), complex_step(reference, run.in, "x", slopes), 8, "dx");
  run.expect_gradients(reference, slopes, 8);
}

// A wide router has f32 weights and scores in a bf16 pass, and gradients of these scores.
TEST(WideRouter, ComputesInF32) {
  for (const LinearForm& form : {kTrained, kAdapter}) {
    const Case t{.name = "", .form = form, .choices = kExperts, .sigmoid = true};
    LayerRun run(DType::bf16);
    Moe moe = make(t, DType::bf16);
    moe.rule = {.sigmoid = true};
    run.bind(moe);
    Matrix &x = run.input(kRows, kWidth, "x"), &y = run.matrix(kRows, kWidth, "y"),
           &dy = run.matrix(kRows, kWidth, "dy"), &dx = run.matrix(kRows, kWidth, "dx");
    const Moe::Saved saved = moe.forward(run.c, y, x, {}, nullptr, Keep::all);
    EXPECT_EQ(saved.routed.p.dtype, DType::f32);
    const Values<double> logits =
        reference::linear(run.in, "router", run.in.at("x"), kRows, lora_of(form, run.c));
    const Values<double> p = values_of(saved.routed.p);
    for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], 1 / (1 + std::exp(-logits[i])), 1e-6) << i;
    moe.backward(run.c, dx, dy, x, saved, nullptr);
    const auto reference = [&](const auto& in) {
      auto sum = reference::experts(in, "router", "experts.", kExperts, moe.rule, in.at("x"), kRows,
                                    lora_of(form, run.c));
      return sum;
    };
    run.expect_near(y.values(), reference(run.in), 12, "y");
    run.expect_near(dx.values(), complex_step(reference, run.in, "x", dy.values()), 24, "dx");
  }
}

// Returns the most scratch memory in use during a backward pass with rows for all experts.
std::int64_t most_scratch(const LinearForm& form) {
  LayerRun run(DType::f32);
  Moe moe = make({.name = "", .form = form, .choices = kExperts}, DType::f32);
  run.bind(moe);
  Matrix &x = run.input(kRows, kWidth, "x"), &y = run.matrix(kRows, kWidth, "y"),
         &dy = run.matrix(kRows, kWidth, "dy"), &dx = run.matrix(kRows, kWidth, "dx");
  const Moe::Saved saved = moe.forward(run.c, y, x, {}, nullptr, Keep::all);
  run.scratch.recent_peak();
  moe.backward(run.c, dx, dy, x, saved, nullptr);
  return run.scratch.recent_peak();
}

// An adapter that changes the whole weight has the changes of one expert at a time: of gate and up, and a
// matrix and its gradient on the way.
TEST(MoeWithHira, HasTheChangesOfOneExpertAtATime) {
  static_assert(kWidth * kInner * 4 <= Arena::kAlign);
  const std::int64_t more = most_scratch(kHira) - most_scratch({});
  EXPECT_GT(more, 0);
  EXPECT_LE(more, 4 * Arena::kAlign);
}

// A pass without adapters, as for references of preferences, equals the base's pass.
TEST(MoeWithoutAdapters, IsTheBase) {
  for (const bool at_once : {false, true}) {
    LayerRun run(DType::f32);
    Moe moe =
        make({.name = "", .form = at_once ? LinearForm{} : kAdapter, .all_at_once = at_once}, DType::f32);
    run.bind(moe);
    Matrix &x = run.input(kRows, kWidth, "x"), &y = run.matrix(kRows, kWidth, "y");
    run.c.adapters = false;
    const auto without = [&] {
      Scope all(run.c.saved);
      moe.forward(run.c, y, x, {}, nullptr, Keep::nothing);
      return y.values();
    };
    const Values<double> got = without();
    run.expect_near(got,
                    reference::experts(run.in, "router", "experts.", 2, {.normalised = true}, run.in.at("x"),
                                       kRows, {.scale = 0}),
                    6, "y");
    run.c.adapters = true;
    EXPECT_NE(without(), got);
  }
}

}  // namespace
}  // namespace ft::test
