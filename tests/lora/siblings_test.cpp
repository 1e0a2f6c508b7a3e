// Linears with the same input: if possible, one product for all their adapters, with the results of each
// alone.
#include "engine/layers/siblings.h"

#include <gtest/gtest.h>

#include "engine/layers/sum.h"
#include "engine/ops/trace_ops.h"
#include "engine/ranks/local.h"
#include "engine/zero/parameter_store.h"
#include "lora/kinds.h"
#include "lora/linear_adapter.h"

namespace ft::lora {
namespace {

constexpr std::int64_t kRows = 5, kIn = 64;

struct Kind {
  std::int64_t rank = 0;  // 0: no adapter
  float scale = 2, dropout = 0;
  const AdapterKind* kind = &kinds::kLora;
};

// q, k and v in one unit; k and v have fewer heads.
class Three {
 public:
  explicit Three(const std::vector<Kind>& kinds) {
    const std::int64_t out[] = {24, 8, 8};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string name(1, "qkv"[i]);
      linears_[i] = make_linear(name, kIn, out[i], i == 1, DType::f32);
      const Kind& k = kinds[i];
      if (k.rank > 0)
        linears_[i].adapter = k.kind->make({}, {name, kIn, out[i], k.rank, k.scale, k.dropout, DType::f32});
    }
    std::vector<Parameter*> all;
    EachParameter each([&](Parameter& p) { all.push_back(&p); });
    visit_all(each, {&linears_[0], &linears_[1], &linears_[2]});
    unit_ = store_.add_unit("attention", all);
    store_.reserve();
    store_.load([](const Parameter& p, Tensor y, std::int64_t first) {
      const Random random = Random{7}.with(p.name);
      for (std::int64_t i = 0; i < y.numel(); ++i)
        y.as<float>()[i] = uniform(random, static_cast<std::uint64_t>(first + i));
    });
    parameters_ = all;
    x_ = random("x", kIn);
  }

  // Returns all outputs, the gradient of x and the gradients of the adapters, one after another.
  std::vector<float> run(bool together) {
    store_.begin_step();
    store_.begin_micro_step(true);
    store_.acquire(unit_, true);
    trace_.clear();
    Ctx c{trace_, saved_, scratch_, {DType::f32, Random{3}}};
    Scope all(saved_), scratch(scratch_);
    Tensor y[3], dy[3], u[3], dx = saved_.take({kRows, kIn}, DType::f32);
    for (std::size_t i = 0; i < 3; ++i) {
      y[i] = saved_.take({kRows, linears_[i].out}, DType::f32);
      dy[i] = random("dy", linears_[i].out);
    }
    Sum sum(trace_, dx);
    if (together) {
      const Tensor us = forward_all(c, {{linears_[0], y[0]}, {linears_[1], y[1]}, {linears_[2], y[2]}}, x_);
      backward_all(c, sum, {{linears_[0], dy[0]}, {linears_[1], dy[1]}, {linears_[2], dy[2]}}, x_, us);
    } else {
      for (std::size_t i = 0; i < 3; ++i) u[i] = linears_[i].forward(c, y[i], x_);
      for (std::size_t i = 0; i < 3; ++i) linears_[i].backward(c, sum, dy[i], x_, u[i]);
    }
    sum.run();
    std::vector<float> result;
    const auto keep = [&](const Tensor& t) {
      result.insert(result.end(), t.as<float>(), t.as<float>() + t.numel());
    };
    for (const Tensor& t : y) keep(t);
    keep(dx);
    for (const Parameter* p : parameters_)
      if (p->trainable) keep(p->grad);
    store_.reduce(unit_, true);
    store_.release(unit_);
    return result;
  }
  // Returns the calls of products in the last run; the gradients of a narrow matrix count as two.
  std::int64_t products() {
    std::int64_t calls = 0;
    for (const TraceTotal& t : trace_.totals())
      if (t.op == "products" || t.op == "narrow_grad") calls += t.calls * (t.op == "products" ? 1 : 2);
    return calls;
  }

 private:
  static float uniform(const Random& random, std::uint64_t i) {
    return static_cast<float>(random.at(i)[0]) / 4294967296.0f - 0.5f;
  }
  Tensor random(std::string_view name, std::int64_t cols) {
    Tensor t = inputs_.take({kRows, cols}, DType::f32);
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.as<float>()[i] = uniform(Random{1}.with(name), static_cast<std::uint64_t>(i));
    return t;
  }
  Arena arena() { return {ops_->allocate(1 << 20), 1 << 20}; }

  std::unique_ptr<Ops> ops_ = make_ops({});
  TraceOps trace_{*ops_};
  LocalCommunicator comm_{*ops_};
  ParameterStore store_{*ops_, comm_, ZeroStage::of(0)};
  Arena saved_ = arena(), scratch_ = arena(), inputs_ = arena();
  std::array<Linear, 3> linears_;
  std::vector<Parameter*> parameters_;
  int unit_ = 0;
  Tensor x_;
};

const Kind kMiss{.rank = 6, .kind = &kinds::kMiss}, kHira{.rank = 3, .kind = &kinds::kHira};

struct Case {
  const char* name;
  std::vector<Kind> kinds;
  std::int64_t saved;  // products that one call for all saves
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class SiblingsTest : public testing::TestWithParam<Case> {};

TEST_P(SiblingsTest, EachGivesItsSeparateResult) {
  Three three(GetParam().kinds);
  const std::vector<float> alone = three.run(false);
  const std::int64_t products = three.products();
  const std::vector<float> together = three.run(true);
  EXPECT_EQ(products - three.products(), GetParam().saved);
  ASSERT_EQ(alone.size(), together.size());
  for (std::size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(alone[i], together[i], 1e-5f) << i;
}

INSTANTIATE_TEST_SUITE_P(
    All, SiblingsTest,
    testing::Values(Case{"all", {{4}, {4}, {4}}, 4},             // u and dA: 1 for 3
                    Case{"query_and_value", {{4}, {}, {4}}, 2},  // PEFT's default
                    Case{"one", {{}, {}, {4}}, 0}, Case{"none", {{}, {}, {}}, 0},
                    Case{"ranks", {{4}, {2}, {4}}, 0}, Case{"scales", {{4}, {4, 3}, {4}}, 0},
                    Case{"dropout", {{4, 2, 0.5f}, {4, 2, 0.5f}, {4, 2, 0.5f}}, 0},
                    Case{"miss", {kMiss, kMiss, kMiss}, 0}, Case{"miss_and_lora", {kMiss, {4}, kMiss}, 0},
                    Case{"hira", {kHira, kHira, kHira}, 0}, Case{"hira_and_others", {kHira, {4}, kMiss}, 0}),
    [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace ft::lora
