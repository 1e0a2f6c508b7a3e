// Moe with its experts' matrices in stacks: biases, limited gates in pairs, adapters of all experts at once,
// rows above a capacity, and frozen matrices in MXFP4.
#include "engine/layers/expert_stack.h"

#include "engine/layers/moe.h"
#include "lora/experts.h"
#include "tests/engine/layers/layer_fixture.h"
#include "tests/reference/routing.h"

namespace ft::test {
namespace {

constexpr std::int64_t kExperts = 4, kRows = 9;
constexpr float kLimit = 0.4f, kSteepness = 1.702f;  // the limit is passed by some gates and ups

struct Case {
  const char* name;
  bool trained = true, adapted = false;
  Keep keep = Keep::all;
  double capacity_factor = 0;
  std::int64_t width = 7, inner = 5;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"Trained"},
    {"MadeAgain", true, false, Keep::nothing},
    {"Adapted", false, true},
    {"AdaptedMadeAgain", false, true, Keep::nothing},
    {"AdaptedAndTrained", true, true},
    {"Limited", true, false, Keep::all, 0.7},
};

Moe make(const Case& t, DType dtype) {
  Moe m;
  m.name = "moe";
  m.gate = linear("router", t.width, kExperts, {.bias = true, .trained = t.trained}, dtype);
  m.stacks = std::make_unique<StackedExperts>(
      StackedExperts{.gate_up = ExpertStack("gate_up_proj", kExperts, t.width, 2 * t.inner, dtype),
                     .down = ExpertStack("down_proj", kExperts, t.inner, t.width, dtype),
                     .limit = kLimit,
                     .steepness = kSteepness});
  for (ExpertStack* s : {&m.stacks->gate_up, &m.stacks->down})
    s->matrices.trainable = s->biases.trainable = t.trained;
  for (std::int64_t e = 0; e < kExperts; ++e)
    m.experts.push_back(
        {.gate_proj = m.stacks->gate_up.linear(e), .up_proj = {}, .down_proj = m.stacks->down.linear(e)});
  m.capacity_factor = t.capacity_factor;
  if (t.adapted) lora::adapt_experts(m, {3, 2, 2, 0.5f}, dtype);
  return m;
}

// Adds (s B_e A_e) transposed to the matrices (E, in, out) of a stack.
template <class V>
void merge(Named<V>& in, const std::string& module, const std::string& stack, std::size_t r, double scale) {
  const Values<V>&a = in.at(module + ".lora_A.weight"), &b = in.at(module + ".lora_B.weight");
  Values<V>& w = in.at(stack);
  const std::size_t n = kExperts, width = a.size() / (n * r), out = b.size() / (n * r);
  for (std::size_t e = 0; e < n; ++e)
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t o = 0; o < out; ++o)
        for (std::size_t j = 0; j < r; ++j)
          w[(e * width + i) * out + o] += scale * b[o * r * n + j * n + e] * a[(e * r + j) * width + i];
}

// x W_e + b_e of a stack.
template <class V>
Values<V> through(const Named<V>& in, const std::string& stack, std::size_t e, const Values<V>& x) {
  const Values<V>&w = in.at(stack), &b = in.at(stack + "_bias");
  const std::size_t out = b.size() / std::size_t(kExperts), inputs = x.size();
  Values<V> y;
  for (std::size_t o = 0; o < out; ++o) {
    V sum = b[e * out + o];
    for (std::size_t i = 0; i < inputs; ++i) sum += x[i] * w[(e * inputs + i) * out + o];
    y.push_back(sum);
  }
  return y;
}

template <class V>
V gated(V gate, V up) {
  const double limit = double(kLimit);
  if (std::real(gate) > limit) gate = limit;
  if (std::abs(std::real(up)) > limit) up = std::copysign(limit, std::real(up));
  return (up + 1.0) * gate / (1.0 + std::exp(-double(kSteepness) * gate));
}

template <class V>
Values<V> expected(Named<V> in, const Case& t) {
  if (t.adapted) {
    merge(in, "base_model.model.moe.experts.base_layer", "gate_up_proj", 3, 2);
    merge(in, "base_model.model.moe.experts", "down_proj", 2, 0.5);
  }
  const Values<V>& x = in.at("x");
  const auto width = std::size_t(t.width);
  Values<V> y = in.at("residual");
  std::vector<std::size_t> taken(kExperts);
  for (std::size_t r = 0; r < std::size_t(kRows); ++r) {
    const Values<V> own(x.begin() + std::ptrdiff_t(r * width), x.begin() + std::ptrdiff_t((r + 1) * width));
    const Values<V> logits = reference::linear(in, "router", own, 1);
    const std::vector<std::size_t> ids = reference::largest(logits, 2);
    Values<V> chosen;
    for (const std::size_t e : ids) chosen.push_back(logits[e]);
    const Values<V> weights = reference::softmax(chosen);  // over the chosen ones alone
    for (std::size_t j = 0; j < ids.size(); ++j) {
      const double even = double(kRows) * 2 / double(kExperts);
      if (t.capacity_factor > 0 && double(taken[ids[j]]++) >= std::ceil(t.capacity_factor * even)) continue;
      const Values<V> both = through(in, "gate_up_proj", ids[j], own);
      Values<V> inner;
      for (std::size_t i = 0; i < both.size(); i += 2) inner.push_back(gated(both[i], both[i + 1]));
      const Values<V> z = through(in, "down_proj", ids[j], inner);
      for (std::size_t i = 0; i < width; ++i) y[r * width + i] += weights[j] * z[i];
    }
  }
  return y;
}

class StackedExpertsLayer : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(, StackedExpertsLayer,
                         testing::Combine(testing::ValuesIn(kCases), testing::Values(DType::f32)),
                         name_of_case<Case>);

TEST_P(StackedExpertsLayer, IsTheReferenceWithItsGradients) {
  const Case& t = std::get<0>(GetParam());
  LayerRun run(std::get<1>(GetParam()));
  Moe moe = make(t, run.c.dtype);
  run.bind(moe);
  Matrix &x = run.input(kRows, t.width, "x"), &residual = run.input(kRows, t.width, "residual");
  Matrix &y = run.matrix(kRows, t.width, "y"), &dy = run.matrix(kRows, t.width, "dy"),
         &dx = run.matrix(kRows, t.width, "dx");
  const Moe::Saved saved = moe.forward(run.c, y, x, residual, nullptr, t.keep);
  moe.backward(run.c, dx, dy, x, saved, nullptr);

  const auto reference = [&](const auto& in) { return expected(in, t); };
  run.expect_near(y.values(), reference(run.in), 6, "y");
  run.expect_near(dx.values(), complex_step(reference, run.in, "x", dy.values()), 8, "dx");
  run.expect_gradients(reference, dy.values(), 8);
}

// Matrices that MXFP4 holds exactly, so that results have the same bits.
class CodedStack : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CodedStack, kTypes, name_of_type);

TEST_P(CodedStack, HasTheBitsOfItsDenseForm) {
  const Case t{"", false, true, Keep::nothing, 0, 64, 32};
  struct Result {
    Values<double> y, dx;
    Named<double> gradients;
    bool operator==(const Result&) const = default;
  };
  const auto result = [&](bool coded) {
    LayerRun run(GetParam());
    Moe moe = make(t, run.c.dtype);
    for (ExpertStack* s : {&moe.stacks->gate_up, &moe.stacks->down}) {
      const std::int64_t in = s->matrices.shape[1], out = s->matrices.shape[2], n = in * out;
      Values<double> bytes, exponents, dense(std::size_t(kExperts * n));
      for (std::int64_t i = 0; i < kExperts * n / 2; ++i) bytes.push_back(double(i * 37 % 251));
      for (std::int64_t i = 0; i < kExperts * n / 32; ++i) exponents.push_back(double(120 + i % 5));
      for (std::int64_t e = 0; e < kExperts; ++e)
        for (std::int64_t at = 0; at < n; ++at) {  // of (out, in)
          const std::int64_t whole = e * n + at;
          const auto byte = static_cast<std::uint8_t>(bytes[std::size_t(whole / 2)]);
          const int code = at % 2 == 0 ? byte >> 4 : byte & 15;
          constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
          dense[std::size_t(e * n + at % in * out + at / in)] =
              (code < 8 ? 1 : -1) * kMagnitudes[code % 8] *
              std::exp2(exponents[std::size_t(whole / 32)] - 127);
        }
      run.stored[s->matrices.name] = dense;
      run.stored[s->matrices.name + "_blocks"] = bytes;
      run.stored[s->matrices.name + "_scales"] = exponents;
      if (coded) s->keep_in_mxfp4();
    }
    run.bind(moe);
    Matrix &x = run.input(kRows, t.width, "x"), &y = run.matrix(kRows, t.width, "y"),
           &dy = run.matrix(kRows, t.width, "dy"), &dx = run.matrix(kRows, t.width, "dx");
    const Moe::Saved saved = moe.forward(run.c, y, x, {}, nullptr, t.keep);
    moe.backward(run.c, dx, dy, x, saved, nullptr);
    return Result{y.values(), dx.values(), run.gradients()};
  };
  const Result dense = result(false);
  EXPECT_FALSE(dense.gradients.empty());
  EXPECT_TRUE(result(true) == dense);
}

}  // namespace
}  // namespace ft::test
