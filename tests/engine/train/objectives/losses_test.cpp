// The loss types CISPO and SAPO of GRPO, and settings that loss types and distillation refuse.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/core/error.h"
#include "engine/train/objectives/list.h"
#include "tests/engine/train/objectives/judged_sample.h"
#include "tests/engine/train/objectives/refusal.h"

namespace ft {
namespace {

using namespace objectives;

// Moves log p and the old log p together, so that CISPO's ratios stay; the KL has the slopes of its loss.
TEST(Objectives, ABoundedRatioHasNoSlope) {
  for (const SamplingLevel level : {SamplingLevel::token, SamplingLevel::sequence}) {
    ObjectiveConfig plain = settings(kGrpo, {"cispo"}), with_kl = plain;
    plain.epsilon_high = with_kl.epsilon_high = 1.05;
    plain.importance_sampling_level = with_kl.importance_sampling_level = level;
    with_kl.beta = 0.2;
    Sample sample(plain);
    const auto judge = make(plain), of_kl = make(with_kl);
    const Verdict verdict = judge->judge(sample.answers()), all = of_kl->judge(sample.answers());
    const auto kl = [&] { return of_kl->judge(sample.answers()).loss - judge->judge(sample.answers()).loss; };
    for (std::size_t t = 0; t < sample.values.size(); ++t) {
      constexpr double kStep = 1e-5;
      const double at = sample.values[t], old = sample.old[t];
      double above[2], below[2];
      sample.values[t] = at + kStep;
      above[1] = kl();
      sample.old[t] = old - kStep;
      above[0] = judge->judge(sample.answers()).loss;
      sample.values[t] = at - kStep;
      sample.old[t] = old + kStep;
      below[0] = judge->judge(sample.answers()).loss;
      sample.old[t] = old;
      below[1] = kl();
      sample.values[t] = at;
      EXPECT_NEAR(-verdict.slopes[t], (above[0] - below[0]) / (2 * kStep), 1e-7) << t;
      EXPECT_NEAR(verdict.slopes[t] - all.slopes[t], (above[1] - below[1]) / (2 * kStep), 1e-7) << t;
    }
    EXPECT_GT(verdict.columns[2], 0) << "some ratios are bounded";
    EXPECT_LT(verdict.columns[2], 1);
    EXPECT_EQ(judge->columns()[2], "cispo_clip_ratio");
  }
}

// One token an answer, ratios 2 and 1/2: TRL's formulas written out.
TEST(Objectives, CispoAndSapoAreTRLs) {
  const Compared rows{
      .first_target = {0, 1, 2}, .first_answer = {0, 1}, .value = {1.5f, -0.5f}, .sample = {}};
  const std::vector<double> values{0.7, 1.1}, old{-0.7 - std::log(2.0), -1.1 + std::log(2.0)};
  const std::vector<float> statistics(8);
  const auto loss_of = [&](const ObjectiveConfig& c) {
    return make(c)->judge({rows, values, statistics, {}, 0, old}).loss;
  };
  ObjectiveConfig c = settings(kGrpo, {"cispo"});
  EXPECT_NEAR(loss_of(c), -(0.2 * 1.5 * -0.7) - (0.2 * -0.5 * -1.1), 1e-7) << "TRL's epsilon_high is 0.2";
  c.epsilon_high = 1.2;
  EXPECT_NEAR(loss_of(c), -(1.2 * 1.5 * -0.7) - (0.5 * -0.5 * -1.1), 1e-7);
  EXPECT_TRUE(make(c)->counts_targets());
  c.epsilon_high.reset();
  c.epsilon = 1.2;
  EXPECT_NEAR(loss_of(c), -(1.2 * 1.5 * -0.7) - (0.5 * -0.5 * -1.1), 1e-7) << "TRL's epsilon_high is epsilon";
  c = settings(kGrpo, {"sapo"});
  const auto gate = [](double ratio, double t) { return 4 / t / (1 + std::exp(-t * (ratio - 1))); };
  EXPECT_NEAR(loss_of(c), -gate(2, 1) * 1.5 + gate(0.5, 1.05) * 0.5, 1e-7);
  c.sapo_temperature_pos = 2;
  c.sapo_temperature_neg = 3;
  EXPECT_NEAR(loss_of(c), -gate(2, 2) * 1.5 + gate(0.5, 3) * 0.5, 1e-7);
  EXPECT_FALSE(make(c)->counts_targets());
}

TEST(Objectives, GroupsHaveTwoAnswersAndLossesOnlyTheirSettings) {
  ObjectiveConfig c = settings(kGrpo);
  c.num_generations = 1;
  EXPECT_NE(refusal_of(c).find("objective.num_generations: must be at least 2"), std::string::npos);
  const auto refused = [](const char* loss, auto set) {
    ObjectiveConfig of = settings(kGrpo, {loss});
    set(of);
    return refusal_of(of);
  };
  using Config = ObjectiveConfig;
  const auto epsilon = [](Config& of) { of.epsilon = 0.1; };
  const auto high = [](Config& of) { of.epsilon_high = 0.1; };
  const auto both = [](Config& of) { of.epsilon = of.epsilon_high = 0.1; };
  const auto wide = [](Config& of) { of.epsilon = 5; };
  const auto delta = [](Config& of) { of.delta = 2; };
  const auto steep = [](Config& of) { of.sapo_temperature_pos = 2; };
  const auto below = [](Config& of) { of.sapo_temperature_neg = 2; };
  EXPECT_NE(refused("sapo", epsilon).find("objective.epsilon: has no effect"), std::string::npos);
  EXPECT_NE(refused("sapo", high).find("objective.epsilon_high: has no effect"), std::string::npos);
  EXPECT_NE(refused("sapo", delta).find("objective.delta: has no effect"), std::string::npos);
  EXPECT_NE(refused("cispo", delta).find("objective.delta: has no effect"), std::string::npos);
  EXPECT_NE(refused("cispo", both).find("objective.epsilon: has no effect beside"), std::string::npos);
  EXPECT_NE(refused("dapo", steep).find("objective.sapo_temperature_pos"), std::string::npos);
  EXPECT_NE(refused("cispo", below).find("objective.sapo_temperature_neg"), std::string::npos);
  EXPECT_EQ(refused("sapo", steep), "");
  EXPECT_EQ(refused("cispo", high), "");
  EXPECT_EQ(refused("cispo", wide), "") << "the largest ratio itself";
  EXPECT_NE(refused("dapo", wide).find("objective.epsilon: is at most 1"), std::string::npos);
  EXPECT_EQ(refused("dapo", high), "");
}

TEST(Objectives, DistillationAsksForAnswersOnlyWithTheirSettings) {
  const auto refused = [](auto set) {
    ObjectiveConfig c = settings(kDistill);
    c.teacher_model_name_or_path = "teacher";
    set(c);
    return refusal_of(c);
  };
  EXPECT_NE(refused([](auto& c) { c.top_k = 5; }).find("objective.top_k: has no effect"), std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.max_completion_length = 5; }).find("objective.max_completion_length"),
            std::string::npos);
  EXPECT_EQ(refused([](auto& c) { c.lmbda = 0.5, c.top_k = 5, c.max_completion_length = 5; }), "");
  EXPECT_EQ(refused([](auto& c) { c.seq_kd = true, c.lmbda = 0.5; }), "");
  EXPECT_NE(refused([](auto& c) { c.seq_kd = true, c.lmbda = 1; }).find("objective.seq_kd: has no effect"),
            std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.lmbda = 1, c.num_iterations = 2; }).find("objective.num_iterations"),
            std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.lmbda = 1, c.steps_per_generation = 2; }).find("steps_per_generation"),
            std::string::npos);
  EXPECT_NE(refused([](auto& c) {
              c.lmbda = 1, c.teacher_file = "t", c.teacher_model_name_or_path.reset();
            }).find("objective.teacher_file"),
            std::string::npos);
  ObjectiveConfig c = settings(kDistill);
  EXPECT_FALSE(c.rewrites());
  c.seq_kd = true;
  EXPECT_TRUE(c.rewrites());
}

}  // namespace
}  // namespace ft
