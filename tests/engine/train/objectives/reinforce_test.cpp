// REINFORCE++: advantages against OpenRLHF's formulas written out, slopes of the judge against differences of
// the loss.
#include "engine/train/objectives/reinforce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/valuation.h"
#include "tests/engine/train/objectives/refusal.h"

namespace ft {
namespace {

std::vector<Trajectory> scored_answers(const std::vector<double>& scores, bool reference = true) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> some(-2, 0);
  std::vector<Trajectory> all;
  for (const double score : scores) {
    Trajectory t{.score = score};
    if (!std::isnan(score))
      for (std::size_t i = 0; i < 1 + all.size() % 3; ++i) {
        t.logps.push_back(some(random));
        if (reference) t.reference.push_back(some(random));
      }
    all.push_back(t);
  }
  return all;
}

ObjectiveConfig reinforce() { return ObjectiveConfig(&objectives::kReinforce); }

std::vector<double> token_advantages(const ObjectiveConfig& c, std::vector<Trajectory> all,
                                     std::int64_t group = 1) {
  c.type->valuation(c)->value(all, group);
  std::vector<double> advantages;
  for (const Trajectory& t : all) {
    EXPECT_EQ(t.advantages.size(), t.logps.size());
    EXPECT_EQ(t.returns.size(), t.logps.size());
    EXPECT_EQ(t.values.size(), t.logps.size());
    advantages.insert(advantages.end(), t.advantages.begin(), t.advantages.end());
  }
  return advantages;
}

// OpenRLHF: rewards of tokens are -beta kl, the answer's reward is added to the last one; returns are their
// sums from each token on (gamma 1).
std::vector<double> token_returns(const std::vector<Trajectory>& all, const std::vector<double>& rewards,
                                  double beta) {
  std::vector<double> returns;
  for (std::size_t k = 0; k < all.size(); ++k)
    for (std::size_t from = 0; from < all[k].logps.size(); ++from) {
      double sum = rewards[k];
      for (std::size_t t = from; t < all[k].logps.size(); ++t)
        if (beta > 0) sum -= beta * (all[k].logps[t] - all[k].reference[t]);
      returns.push_back(sum);
    }
  return returns;
}

void expect_all_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(Reinforce, AdvantagesAreTheRewardsAhead) {
  const std::vector<double> scores{1, 3, 0, 2, 2, 5};
  const auto all = scored_answers(scores);
  ObjectiveConfig c = reinforce();
  c.normalize_advantages = false;
  expect_all_near(token_advantages(c, all), token_returns(all, scores, 0.01));
  EXPECT_TRUE(c.needs().reference);
  c.beta = 0;
  expect_all_near(token_advantages(c, scored_answers(scores, false)), token_returns(all, scores, 0));
  EXPECT_FALSE(c.needs().reference);
  c.beta = 0.3;
  c.reward_clip_range = {-1, 2};
  expect_all_near(token_advantages(c, all), token_returns(all, {1, 2, 0, 2, 2, 2}, 0.3));
}

TEST(Reinforce, TheBaselineIsTheGroupsMeanAndIsSubtractedBeforeRewardsAreCut) {
  ObjectiveConfig c = reinforce();
  c.normalize_advantages = false;
  c.group_baseline = true;
  c.reward_clip_range = {-1, 10};
  const auto all = scored_answers({1, 3, 5, 2, 2, NAN});
  expect_all_near(token_advantages(c, all, 3), token_returns(all, {-1, 0, 2, 0, 0, 0}, 0.01));
}

TEST(Reinforce, WithTheBaselineGroupsOfEqualRewardsAreCounted) {
  ObjectiveConfig c = reinforce();
  c.group_baseline = true;
  const auto valuation = c.type->valuation(c);
  const Measures figures = valuation->figures(scored_answers({1, 3, 5, 2, 2, 2}), 3);
  ASSERT_EQ(figures.size(), valuation->columns().size());
  for (std::size_t i = 0; i < figures.size(); ++i) EXPECT_EQ(figures[i].first, valuation->columns()[i]);
  EXPECT_EQ(figures[2].first, "frac_reward_zero_std");
  EXPECT_EQ(figures[2].second, 0.5);
}

TEST(Reinforce, AdvantagesOfAGenerationAreNormalizedOverItsTokens) {
  const std::vector<double> scores{1, 3, 0, 2, 2, 5};
  const auto all = scored_answers(scores);
  const std::vector<double> plain = token_returns(all, scores, 0.01);
  double mean = 0, squares = 0;
  const auto n = double(plain.size());
  for (const double x : plain) mean += x / n;
  for (const double x : plain) squares += (x - mean) * (x - mean) / n;
  std::vector<double> want;
  for (const double x : plain) want.push_back((x - mean) / std::sqrt(squares));
  expect_all_near(token_advantages(reinforce(), all), want);
}

TEST(Reinforce, EqualRewardsHaveNoAdvantage) {
  ObjectiveConfig c = reinforce();
  c.beta = 0;
  for (const double a : token_advantages(c, scored_answers({2, 2, 2}, false))) EXPECT_EQ(a, 0);
}

TEST(Reinforce, AnAnswerWithoutARewardOrWithoutAnEndMayBeLeftOut) {
  ObjectiveConfig c = reinforce();
  EXPECT_FALSE(c.type->valuation(c)->trains(NAN, true));
  EXPECT_TRUE(c.type->valuation(c)->trains(1, false));
  c.mask_truncated_completions = true;
  EXPECT_FALSE(c.type->valuation(c)->trains(1, false));
}

struct SomeTokens {
  Compared rows{.first_target = {0, 3, 5, 9}, .first_answer = {0, 3, 5}};
  std::vector<double> values, old;
  std::vector<float> statistics = std::vector<float>(36, 0.5f);
  SomeTokens() {
    rows.value = {0, 0, 0};
    std::mt19937 random(5);
    std::uniform_real_distribution<double> some(-0.5, 0.5);
    for (int t = 0; t < 9; ++t) {
      values.push_back(some(random) + 1);
      old.push_back(-values.back() + 0.6 * some(random));
      rows.advantages.push_back(float(some(random)));
    }
  }
  Verdict verdict(const ObjectiveConfig& c) const {
    return c.type->judge(c)->judge({rows, values, statistics, {}, 0, old});
  }
};

TEST(Reinforce, TheLossIsOfTokens) {
  ObjectiveConfig c = reinforce();
  c.epsilon = 0.02;
  c.epsilon_high = 0.05;
  const SomeTokens s;
  double want = 0, low = 0, high = 0;
  for (std::size_t t = 0; t < 9; ++t) {
    const double ratio = std::exp(-s.values[t] - s.old[t]), a = double(s.rows.advantages[t]);
    want -= std::min(ratio * a, std::min(std::max(ratio, 0.98), 1.05) * a);
    low += ratio < 0.98 && a < 0;
    high += ratio > 1.05 && a > 0;
  }
  const Verdict v = s.verdict(c);
  EXPECT_NEAR(v.loss, want, 1e-12);
  EXPECT_GT(low + high, 0) << "some are clipped";
  EXPECT_EQ(v.columns, (std::vector<double>{0.5, low / 9, high / 9, (low + high) / 9}));
  EXPECT_TRUE(c.type->judge(c)->counts_targets()) << "the mean over tokens";
}

TEST(Reinforce, SlopesAreThoseOfTheLoss) {
  for (const double epsilon : {0.2, 0.02}) {
    ObjectiveConfig c = reinforce();
    c.epsilon = epsilon;
    SomeTokens s;
    const Verdict at = s.verdict(c);
    for (std::size_t t = 0; t < s.values.size(); ++t) {
      constexpr double kStep = 1e-6;
      const double here = s.values[t];
      s.values[t] = here + kStep;
      const double above = s.verdict(c).loss;
      s.values[t] = here - kStep;
      const double below = s.verdict(c).loss;
      s.values[t] = here;
      EXPECT_NEAR(-at.slopes[t], (above - below) / (2 * kStep), 1e-7) << epsilon << " " << t;
    }
  }
}

TEST(Reinforce, GroupsHaveOneAnswerUnlessTheyAreCompared) {
  ObjectiveConfig c = reinforce();
  c.reward_funcs = {RewardCheck::exact_match};
  EXPECT_EQ(c.needs().group, 1);
  c.num_generations = 1;
  EXPECT_EQ(refusal_of(c), "");
  c.group_baseline = true;
  EXPECT_NE(refusal_of(c).find("objective.num_generations: must be at least 2"), std::string::npos);
  c.num_generations.reset();
  EXPECT_EQ(c.needs().group, 8);
  EXPECT_EQ(refusal_of(c), "");
  c.beta = 0;
  c.ref_model_name_or_path = "r";
  EXPECT_NE(refusal_of(c).find("no effect with objective.beta=0"), std::string::npos);
}

}  // namespace
}  // namespace ft
