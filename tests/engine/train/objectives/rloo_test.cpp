// RLOO: advantages against TRL's formulas written out, slopes of the judge against differences of the loss.
#include "engine/train/objectives/rloo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/valuation.h"
#include "tests/engine/train/objectives/refusal.h"

namespace ft {
namespace {

std::vector<Trajectory> answers_with(const std::vector<double>& scores) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> some(-2, 0);
  std::vector<Trajectory> all;
  for (const double score : scores) {
    Trajectory t{.score = score};
    for (std::size_t i = 0; i < 1 + all.size() % 3; ++i) {
      t.logps.push_back(some(random));
      t.reference.push_back(some(random));
    }
    all.push_back(t);
  }
  return all;
}

double kl_of(const Trajectory& t) {
  return std::inner_product(t.logps.begin(), t.logps.end(), t.reference.begin(), 0.0, std::plus<>(),
                            std::minus<>());
}

std::vector<double> advantages_of(const ObjectiveConfig& c, std::vector<Trajectory> all, std::int64_t group) {
  c.type->valuation(c)->value(all, group);
  std::vector<double> advantages;
  for (const Trajectory& t : all) advantages.push_back(t.advantage);
  return advantages;
}

ObjectiveConfig rloo() { return ObjectiveConfig(&objectives::kRloo); }

TEST(Rloo, TheBaselineIsTheMeanOfTheOthers) {
  EXPECT_EQ(leave_one_out({1, 4, 10, 2, 2, 5}, 3), (std::vector<double>{-6, -1.5, 7.5, -1.5, -1.5, 3}));
  const std::vector<double> got = leave_one_out({1, NAN, 3, NAN, NAN, 2}, 3);
  EXPECT_EQ(got[0], -2);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_EQ(got[2], 2);
  EXPECT_TRUE(std::isnan(got[5])) << "it has nothing to be compared with";
}

// TRL: rewards - beta * (old_logps - ref_logps), then (sum of the group - own) / (n - 1) as the baseline.
TEST(Rloo, TheKlIsAPartOfTheReward) {
  ObjectiveConfig c = rloo();
  const std::vector<Trajectory> all = answers_with({1, 3, 0, 2, 2, 5});
  for (const double beta : {0.05, 0.3, 0.0}) {
    if (beta != 0.05) c.beta = beta;
    std::vector<double> r;
    for (const Trajectory& t : all) r.push_back(t.score - beta * kl_of(t));
    const std::vector<double> got = advantages_of(c, all, 3);
    for (std::size_t i = 0; i < 6; ++i) {
      const std::size_t g = i / 3 * 3;
      EXPECT_NEAR(got[i], r[i] - (r[g] + r[g + 1] + r[g + 2] - r[i]) / 2, 1e-12) << beta << " " << i;
    }
    EXPECT_EQ(c.type->valuation(c)->needs_logps(), beta > 0);
    EXPECT_EQ(c.needs().reference, beta > 0);
  }
}

TEST(Rloo, RewardsAreCutBeforeTheKl) {
  ObjectiveConfig c = rloo();
  c.reward_clip_range = {-1, 2};
  const std::vector<Trajectory> all = answers_with({5, -3, 2, 1});
  std::vector<Trajectory> cut = all;
  const double scores[] = {2, -1, 2, 1};
  for (std::size_t i = 0; i < 4; ++i) cut[i].score = scores[i];
  EXPECT_EQ(advantages_of(c, all, 2), advantages_of(rloo(), cut, 2));
}

// TRL: (advantages - nanmean) / (nanstd + 1e-4); answers without a reward get 0.
TEST(Rloo, NormalizedAdvantagesHaveMeanZeroAndDeviationOne) {
  ObjectiveConfig c = rloo();
  c.beta = 0;
  const std::vector<Trajectory> all = answers_with({1, 3, NAN, 2, 2, 5});
  const std::vector<double> plain = advantages_of(c, all, 3);
  c.normalize_advantages = true;
  const std::vector<double> got = advantages_of(c, all, 3);
  double mean = 0, squares = 0;
  for (const std::size_t i : {0, 1, 3, 4, 5}) mean += plain[i] / 5;
  for (const std::size_t i : {0, 1, 3, 4, 5}) squares += (plain[i] - mean) * (plain[i] - mean);
  for (const std::size_t i : {0, 1, 3, 4, 5})
    EXPECT_NEAR(got[i], (plain[i] - mean) / (std::sqrt(squares / 4) + 1e-4), 1e-12) << i;
  EXPECT_EQ(got[2], 0);
}

TEST(Rloo, OneAnswerHasNoAdvantage) {
  EXPECT_EQ(advantages_of(rloo(), answers_with({1, 3}), 1), (std::vector<double>{0, 0}));
}

TEST(Rloo, FiguresAreTRLs) {
  const ObjectiveConfig c = rloo();
  const auto valuation = c.type->valuation(c);
  const std::vector<Trajectory> all = answers_with({1, 3, NAN, 2});
  double kl = 0, tokens = 0;
  for (const Trajectory& t : all) kl += kl_of(t), tokens += double(t.logps.size());
  const Measures got = valuation->figures(all, 2);
  ASSERT_EQ(got.size(), valuation->columns().size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].first, valuation->columns()[i]);
  EXPECT_EQ(got[0].second, 2) << "of the rewards as given, without the KL";
  EXPECT_NEAR(got[1].second, 1, 1e-12);
  EXPECT_EQ(got[2].second, 0.5) << "a single reward has no deviation";
  EXPECT_NEAR(got[3].second, kl / tokens, 1e-12);
}

struct SomeRows {
  Compared rows{.first_target = {0, 3, 5, 9, 10, 10}, .first_answer = {0, 3, 5, 9, 10}};
  std::vector<double> values, old;
  std::vector<float> statistics = std::vector<float>(40, 0.5f);
  SomeRows() {
    rows.value = {1, -0.5f, 0.8f, -1, 0.25f};
    std::mt19937 random(5);
    std::uniform_real_distribution<double> some(-0.5, 0.5);
    for (int t = 0; t < 10; ++t) {
      values.push_back(some(random) + 1);
      old.push_back(-values.back() + 0.2 * some(random));
    }
  }
  Verdict verdict(const ObjectiveConfig& c) const {
    return c.type->judge(c)->judge({rows, values, statistics, {}, 0, old});
  }
};

// An answer without tokens has the ratio 1.
TEST(Rloo, TheLossIsOfCompleteAnswers) {
  ObjectiveConfig c = rloo();
  c.epsilon = 0.02;
  c.epsilon_high = 0.05;
  const SomeRows s;
  double want = 0, low = 0, high = 0;
  for (std::size_t r = 0; r < 5; ++r) {
    double ahead = 0;
    for (auto t = std::size_t(s.rows.first_answer[r]); t < std::size_t(s.rows.first_target[r + 1]); ++t)
      ahead += -s.values[t] - s.old[t];
    const double ratio = std::exp(ahead), a = double(s.rows.value[r]);
    want -= std::min(ratio * a, std::min(std::max(ratio, 0.98), 1.05) * a);
    low += ratio < 0.98 && a < 0;
    high += ratio > 1.05 && a > 0;
  }
  const Verdict v = s.verdict(c);
  EXPECT_NEAR(v.loss, want, 1e-12);
  EXPECT_EQ(v.columns, (std::vector<double>{0.5, low / 5, high / 5, (low + high) / 5}));
  EXPECT_GT(low + high, 0) << "some are clipped";
  EXPECT_FALSE(c.type->judge(c)->counts_targets()) << "the mean over answers";
}

TEST(Rloo, SlopesAreThoseOfTheLoss) {
  for (const double epsilon : {0.2, 0.02}) {
    ObjectiveConfig c = rloo();
    c.epsilon = epsilon;
    SomeRows s;
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

TEST(Rloo, SettingsWithoutEffectAreRefused) {
  ObjectiveConfig c = rloo();
  EXPECT_NE(refusal_of(c).find("rloo answers prompts itself"), std::string::npos);
  c.reward_funcs = {RewardCheck::exact_match};
  EXPECT_EQ(refusal_of(c), "");
  c.reward_clip_range = {1, -1};
  EXPECT_NE(refusal_of(c).find("objective.reward_clip_range"), std::string::npos);
  c.reward_clip_range = {-1, 1};
  EXPECT_EQ(refusal_of(c), "");
  c.beta = 0;
  c.ref_model_name_or_path = "r";
  EXPECT_NE(refusal_of(c).find("no effect with objective.beta=0"), std::string::npos);
  c = ObjectiveConfig(&objectives::kGrpo);
  c.normalize_advantages = true;
  EXPECT_NE(refusal_of(c).find("it is of rloo"), std::string::npos);
}

}  // namespace
}  // namespace ft
