// Parameters with their own rate or decay, or trained from a later step on, are trained as in a run with such
// settings for all.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/ops.h"
#include "engine/ranks/local.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

struct Trained {
  std::vector<float> value;
  std::vector<double> norms;
};

// Runs eight steps of one parameter, alone or beside another one.
Trained train(const UpdateRule& rule, double rate, double decay, bool beside, std::int64_t first = 1) {
  TrainingConfig config;
  config.weight_decay = decay;
  const auto optimizer = make_optimizer(config);
  const auto ops = make_ops({});
  LocalCommunicator alone(*ops);
  ParameterStore store(*ops, alone, ZeroStage::of(0), states_of(config));
  Parameter one, other;
  one.shape = other.shape = {100};
  one.trainable = other.trainable = true;
  one.rule = rule;
  store.add_unit("all", beside ? std::vector{&other, &one} : std::vector{&one});
  store.reserve();
  const auto fill = [](Tensor y, double by) {
    for (std::int64_t i = 0; i < y.numel(); ++i)
      y.as<float>()[i] = static_cast<float>(std::sin(double(i) + by));
  };
  store.load([&](const Parameter&, Tensor y, std::int64_t) { fill(y, 0.5); });
  Trained t;
  for (std::int64_t step = first; step <= 8; ++step) {
    store.begin_step();
    store.stepping().each_slice(
        [&](const Slice& s) { fill(s.grad, s.parameter == &one ? double(step) : 0); });
    t.norms.push_back(store.grad_norm(step));
    take_step(*ops, store, *optimizer, {rate, 1, step - first + 1});
  }
  store.stepping().each_slice([&](const Slice& s) {
    if (s.parameter == &one) t.value.assign(s.master.as<float>(), s.master.as<float>() + s.count);
  });
  return t;
}

TEST(UpdateRules, ARateIsAFactor) {
  EXPECT_EQ(train({.rate = 4}, 1e-2, 0.1, true).value, train({}, 4e-2, 0.1, false).value);
  EXPECT_NE(train({.rate = 4}, 1e-2, 0.1, true).value, train({}, 1e-2, 0.1, false).value);
}

TEST(UpdateRules, ADecayReplacesTheRuns) {
  EXPECT_EQ(train({.decay = 0.5}, 1e-2, 0.1, true).value, train({}, 1e-2, 0.5, false).value);
  EXPECT_EQ(train({.decay = 0}, 1e-2, 0.1, true).value, train({}, 1e-2, 0, false).value);
}

// Steps of a parameter that is frozen at first are counted from its first update, as in torch if gradients
// come later. Until then its gradient is not in the norm.
TEST(UpdateRules, AFrozenParameterBeginsLater) {
  const Trained got = train({.frozen_steps = 3}, 1e-2, 0.1, true), want = train({}, 1e-2, 0.1, false, 4);
  EXPECT_EQ(got.value, want.value);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(got.norms[i], got.norms[0]);
  EXPECT_NEAR(std::pow(got.norms[3], 2), std::pow(got.norms[0], 2) + std::pow(want.norms[0], 2), 1e-6);
}

}  // namespace
}  // namespace ft
