// Importance weights of answers that another program generated: TRL's formulas by hand, the weights in the
// losses of the objectives, and refused settings.
#include "engine/train/objectives/rollout_correction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/train/objectives/list.h"
#include "tests/engine/train/objectives/judged_sample.h"
#include "tests/engine/train/objectives/refusal.h"

namespace ft {
namespace {

using namespace objectives;
using enum RolloutCorrection;

// Ratios by token: 2, 4, 0.25; the answer's: 2.
const std::vector<double> kPolicy{std::log(0.5), std::log(0.8), std::log(0.1)};
const std::vector<double> kSampled{std::log(0.25), std::log(0.2), std::log(0.4)};

RolloutServerSettings with(RolloutCorrection correction) {
  RolloutServerSettings c;
  c.rollout_server = "http://127.0.0.1:8000";
  c.rollout_correction = correction;
  return c;
}

void expect_weights(const RolloutServerSettings& c, const std::vector<double>& want) {
  const std::vector<double> weights = correction_weights(c, {kPolicy, kSampled});
  ASSERT_EQ(weights.size(), want.size());
  for (std::size_t t = 0; t < want.size(); ++t)
    EXPECT_NEAR(weights[t], want[t], 1e-12) << name_of(*c.rollout_correction) << " " << t;
}

TEST(RolloutCorrection, WeightsAreTRLs) {
  expect_weights(with(token_mask), {2, 0, 0.25});
  expect_weights(with(token_truncate), {2, 3, 0.25});
  expect_weights(with(sequence_mask), {2, 2, 2});
  expect_weights(with(sequence_truncate), {2, 2, 2});
  for (const auto correction : {sequence_mask, sequence_truncate, token_mask, token_truncate}) {
    RolloutServerSettings c = with(correction);
    c.rollout_correction_max = 1.5;
    c.rollout_correction_min = 0.5;
    const bool masks = correction == sequence_mask || correction == token_mask;
    const double most = masks ? 0 : 1.5, least = masks ? 0 : 0.5;
    if (correction == token_mask || correction == token_truncate)
      expect_weights(c, {most, most, least});
    else
      expect_weights(c, {most, most, most});
  }
}

TEST(RolloutCorrection, TheDefaultMasksAnswers) {
  RolloutServerSettings c;
  EXPECT_EQ(c.correction(), none) << "the run generates";
  c.rollout_server = "http://a";
  EXPECT_EQ(c.correction(), sequence_mask);
}

TEST(RolloutCorrection, FiguresShowTheGap) {
  const Measures figures =
      correction_figures(with(token_truncate), std::vector<SampledLogps>{{kPolicy, kSampled}, {}});
  const std::map<std::string, double> all(figures.begin(), figures.end());
  EXPECT_NEAR(all.at("sampling/sampling_logp_difference/mean"), std::log(2 * 4 * 4) / 3, 1e-12);
  EXPECT_NEAR(all.at("sampling/sampling_logp_difference/max"), std::log(4), 1e-12);
  EXPECT_NEAR(all.at("sampling/importance_sampling_ratio/min"), 0.25, 1e-12);
  EXPECT_NEAR(all.at("sampling/importance_sampling_ratio/mean"), (2 + 3 + 0.25) / 3, 1e-12);
  EXPECT_NEAR(all.at("sampling/importance_sampling_ratio/max"), 3, 1e-12);
  EXPECT_EQ(all.size(), correction_columns().size());
}

// With weights, the slopes are those of the loss; weights of 1 change no bit, weights of 2 double the loss,
// and the KL has no weight.
TEST(RolloutCorrection, WeightsMultiplyTheLoss) {
  for (const ObjectiveKind* kind : {&kGrpo, &kRloo, &kReinforce}) {
    ObjectiveConfig c = settings(*kind);
    c.beta = 0;
    Sample sample(c);
    const auto targets = sample.values.size();
    sample.rows.advantages.resize(targets);
    for (std::size_t t = 0; t < targets; ++t) sample.rows.advantages[t] = t % 2 == 0 ? 1.0f : -0.5f;
    const Verdict plain = make(c)->judge(sample.answers());
    sample.rows.weights.assign(targets, 1);
    const Verdict same = make(c)->judge(sample.answers());
    EXPECT_EQ(same.loss, plain.loss) << kind->name;
    EXPECT_EQ(same.slopes, plain.slopes) << kind->name;
    sample.rows.weights.assign(targets, 2);
    const Verdict twice = make(c)->judge(sample.answers());
    EXPECT_NEAR(twice.loss, 2 * plain.loss, 1e-12) << kind->name;
    for (std::size_t t = 0; t < targets; ++t)
      EXPECT_NEAR(twice.slopes[t], 2 * plain.slopes[t], 1e-12) << kind->name << " " << t;
    sample.rows.weights.assign(targets, 0);
    const Verdict nothing = make(c)->judge(sample.answers());
    EXPECT_EQ(nothing.loss, 0) << kind->name;
    for (const double slope : nothing.slopes) EXPECT_EQ(slope, 0) << kind->name;
  }
}

TEST(RolloutCorrection, SlopesAreThoseOfTheWeighedLoss) {
  for (const SamplingLevel level : {SamplingLevel::token, SamplingLevel::sequence}) {
    ObjectiveConfig c = settings(kGrpo);
    c.beta = 0.3;
    c.importance_sampling_level = level;
    Sample sample(c);
    for (std::size_t t = 0; t < sample.values.size(); ++t)
      sample.rows.weights.push_back(0.25f * static_cast<float>(1 + t % 5));
    const auto judge = make(c);
    const Verdict verdict = judge->judge(sample.answers());
    for (std::size_t t = 0; t < sample.values.size(); ++t) {
      constexpr double kStep = 1e-6;
      const auto loss = [&](double by) {
        Sample moved = sample;
        moved.values[t] -= by;  // a value is -log p
        return judge->judge(moved.answers()).loss;
      };
      EXPECT_NEAR(verdict.slopes[t], (loss(kStep) - loss(-kStep)) / (2 * kStep), 1e-6) << t;
    }
  }
}

TEST(RolloutCorrection, TheKlHasNoWeight) {
  ObjectiveConfig c = settings(kGrpo);
  c.beta = 0.3;
  Sample sample(c);
  sample.rows.weights.assign(sample.values.size(), 0);
  const Verdict verdict = make(c)->judge(sample.answers());
  EXPECT_GT(verdict.loss, 0) << "the KL remains";
}

TEST(RolloutCorrection, SettingsWithoutEffectAreRefused) {
  const auto refused = [](const auto& change, const ObjectiveKind& kind = kGrpo) {
    ObjectiveConfig c = settings(kind);
    c.reward_funcs = {RewardCheck::number};
    c.rollout_server = "http://127.0.0.1:8000";
    change(c);
    return refusal_of(c);
  };
  using C = ObjectiveConfig;
  EXPECT_EQ(refused([](C&) {}), "");
  EXPECT_EQ(refused([](C&) {}, kReinforce), "");
  EXPECT_EQ(refused([](C& c) { c.rollout_correction = none, c.temperature = 1.5; }), "");
  const auto expect_named = [](const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  expect_named(refused([](C& c) { c.rollout_server.reset(), c.rollout_sync_steps = 2; }),
               "objective.rollout_sync_steps: has no effect without objective.rollout_server");
  expect_named(refused([](C& c) { c.rollout_server = "localhost:8000"; }), "begins with http://");
  expect_named(refused([](C& c) { c.reward_funcs.clear(); }), "answers are given, not generated");
  expect_named(refused([](C& c) { c.temperature = 1.5; }), "objective.temperature");
  expect_named(refused([](C& c) { c.rollout_correction = none, c.rollout_correction_max = 2; }),
               "objective.rollout_correction_max: has no effect with");
  expect_named(refused([](C& c) { c.rollout_correction = none, c.rollout_lookahead = true; }),
               "need importance weights");
  expect_named(refused([](C& c) { c.rollout_correction_min = 4; }),
               "is above objective.rollout_correction_max");
  expect_named(refused([](C& c) { c.rollout_correction = token_mask; }, kRloo), "compares complete answers");
  EXPECT_EQ(refused([](C& c) { c.rollout_correction = token_mask; }, kReinforce), "");
  expect_named(refused([](C&) {}, kPpo), "has no such setting; it is of grpo, rloo, reinforce++");
}

}  // namespace
}  // namespace ft
