// training.ema_decay: the average of the weights after every step, for every optimizer.
#include "engine/train/optimizers/averaged.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/ops/ops.h"
#include "engine/ranks/local.h"
#include "engine/train/optimizers/list.h"

namespace ft {
namespace {

class EmaOf : public testing::TestWithParam<Optim> {};

TEST_P(EmaOf, FollowsTheWeights) {
  TrainingConfig config;
  config.optim = GetParam();
  config.ema_decay = 0.75;
  const auto optimizer = make_optimizer(config);
  const auto ops = make_ops({});
  LocalCommunicator alone(*ops);
  Arena scratch(ops->allocate(1 << 20), 1 << 20);
  ParameterStore store(*ops, alone, ZeroStage::of(0), states_of(config));
  Parameter matrix, vector, later;
  matrix.shape = {70, 64};  // enough for 8 bits
  vector.shape = later.shape = {33};
  matrix.trainable = vector.trainable = later.trainable = true;
  later.rule.frozen_steps = 2;
  store.add_unit("all", {&matrix, &vector, &later});
  store.reserve();
  const auto fill = [](Tensor y, double by) {
    for (std::int64_t i = 0; i < y.numel(); ++i)
      y.as<float>()[i] = static_cast<float>(std::sin(double(i) + by));
  };
  store.load([&](const Parameter&, Tensor y, std::int64_t) { fill(y, 0.5); });
  std::map<const Parameter*, std::vector<double>> want;
  store.stepping().each_slice([&](const Slice& s) {
    want[s.parameter].assign(s.master.as<float>(), s.master.as<float>() + s.count);
  });
  const auto first = want;
  for (std::int64_t step = 1; step <= 5; ++step) {
    store.begin_step();
    store.stepping().each_slice([&](const Slice& s) { fill(s.grad, double(step)); });
    take_step(*ops, store, *optimizer, {1e-2, 1, step}, &scratch);
    store.stepping().each_slice([&](const Slice& s) {
      ASSERT_EQ(store.layout().states(*s.parameter).back(), kAverage);
      auto& mean = want[s.parameter];
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] = 0.75 * mean[i] + 0.25 * s.master.as<float>()[i];
        EXPECT_NEAR(s.states.back().as<float>()[i], mean[i], 1e-6) << step;
      }
    });
  }
  for (const auto& [parameter, mean] : want) EXPECT_NE(mean, first.at(parameter));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EmaOf,
                         testing::Values(&optimizers::kAdamW, &optimizers::kAdamW8bit, &optimizers::kSgd,
                                         &optimizers::kAdafactor, &optimizers::kMuon),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace ft
