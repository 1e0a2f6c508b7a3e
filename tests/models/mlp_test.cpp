// An MLP over more rows than a piece has: keeping or recomputing changes memory, but no bit.
#include "engine/layers/mlp.h"

#include <gtest/gtest.h>

#include "engine/ops/ops.h"
#include "engine/ranks/local.h"
#include "engine/zero/parameter_store.h"
#include "lora/adapter.h"

namespace ft {
namespace {

constexpr std::int64_t kRows = 2 * Mlp::most_rows({}) + 77, kWidth = 8, kInner = 24;

float number(std::string_view name, std::int64_t i) {
  const std::uint32_t bits = Random{5}.with(name).at(static_cast<std::uint64_t>(i))[0];
  return static_cast<float>(bits) / 4294967296.0f - 0.5f;
}

struct Result {
  std::vector<float> values;  // y, dx and all gradients
  std::int64_t saved;         // peak bytes
  bool operator==(const Result& r) const { return values == r.values; }
};

class Feed {
 public:
  explicit Feed(bool adapters, float lora_dropout = 0) {
    mlp_.gate_proj = linear("gate", kWidth, kInner, adapters, lora_dropout);
    mlp_.up_proj = linear("up", kWidth, kInner, adapters, lora_dropout);
    mlp_.down_proj = linear("down", kInner, kWidth, adapters, lora_dropout);
    for (Parameter* p : parameters_of(mlp_)) p->trainable = p->trainable || !adapters;
  }

  // Runs one step: forward, and backward with the tensors that `keep` keeps.
  Result run(Keep keep) {
    Arena saved = arena(), scratch = arena(), own = arena();
    Ctx c{*ops_, saved, scratch, {DType::f32, Random{3}}};
    LocalCommunicator comm(*ops_);
    ParameterStore store(*ops_, comm, ZeroStage::of(0));
    const std::vector<Parameter*> all = parameters_of(mlp_);
    const int unit = store.add_unit("mlp", all);
    store.reserve();
    store.load([](const Parameter& p, Tensor y, std::int64_t first) {
      for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] = number(p.name, first + i);
    });
    store.begin_step();
    store.begin_micro_step(true);
    store.acquire(unit, true);
    const auto take = [&](const char* name) {
      Tensor t = own.take({kRows, kWidth}, DType::f32);
      for (std::int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = number(name, i);
      return t;
    };
    Tensor x = take("x"), y = take("y"), dy = take("dy"), dx = take("dx");
    const Mlp::Saved s = mlp_.forward(c, y, x, x, keep);
    mlp_.backward(c, dx, dy, x, s);
    Result r{{}, saved.peak()};
    for (const Tensor& t : {y, dx}) r.values.insert(r.values.end(), t.as<float>(), t.as<float>() + t.numel());
    for (const Parameter* p : all)
      if (p->grad)
        r.values.insert(r.values.end(), p->grad.as<float>(), p->grad.as<float>() + p->grad.numel());
    store.reduce(unit, true);
    store.release(unit);
    return r;
  }

 private:
  static Linear linear(const char* name, std::int64_t in, std::int64_t out, bool adapter, float dropout) {
    Linear l = make_linear(name, in, out, false, DType::f32);
    if (adapter) l.adapter = std::make_unique<lora::LoraAdapter>(name, in, out, 4, 2.0f, dropout, DType::f32);
    return l;
  }
  Arena arena() { return {ops_->allocate(8 << 20), 8 << 20}; }

  std::unique_ptr<Ops> ops_ = make_ops({});
  Mlp mlp_;
};

TEST(Mlp, KeptTensorsChangeNoBit) {
  for (const bool adapters : {false, true}) {
    Feed feed(adapters);
    const Result all = feed.run(Keep::all), nothing = feed.run(Keep::nothing);
    EXPECT_EQ(all, nothing);
    EXPECT_EQ(all, feed.run(Keep::but_the_mlp));
    EXPECT_LT(nothing.saved, all.saved / 2);  // one piece of three
    const Result whole = feed.run(Keep::whole);
    EXPECT_EQ(all, whole);
    EXPECT_GE(whole.saved, all.saved + kRows * kInner * size_of(DType::f32));
  }
}

// Dropout's masks are made for all rows, so the rows are one piece.
TEST(Mlp, KeptTensorsChangeNoBitWithDropout) {
  Feed feed(true, 0.3f);
  const Result all = feed.run(Keep::all);
  EXPECT_EQ(all, feed.run(Keep::nothing));
  EXPECT_EQ(all, feed.run(Keep::whole));
  EXPECT_NE(all, Feed(true).run(Keep::all));
}

}  // namespace
}  // namespace ft
