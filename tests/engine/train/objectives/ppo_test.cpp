// PPO: advantages and returns against sums written out, slopes of both judges against differences of the
// loss.
#include "engine/train/objectives/ppo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/valuation.h"

namespace ft {
namespace {

std::vector<Trajectory> some_answers() {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> some(-2, 0);
  std::vector<Trajectory> all;
  for (const int tokens : {4, 1, 0, 3}) {
    Trajectory t{.score = 3 * some(random) + 2};
    for (int i = 0; i < tokens; ++i) {
      t.logps.push_back(some(random));
      t.reference.push_back(some(random));
      t.values.push_back(some(random) + 1);
    }
    all.push_back(t);
  }
  return all;
}

PpoSettings settings() {
  PpoSettings c;
  c.kl_coef = 0.3;
  c.cliprange_reward = 1;
  c.gamma = 0.9;
  c.lam = 0.7;
  return c;
}

double reward_of(const Trajectory& t, std::size_t i, const PpoSettings& c) {
  const double kl = -*c.kl_coef * (t.logps[i] - t.reference[i]);
  return i + 1 < t.logps.size() ? kl : kl + std::clamp(t.score, -*c.cliprange_reward, *c.cliprange_reward);
}

// A(t) is the sum over later tokens of (gamma lambda)^l delta(t + l).
TEST(Ppo, AdvantagesAreDiscountedSumsOfErrors) {
  std::vector<Trajectory> all = some_answers();
  const PpoSettings c = settings();
  evaluate(all, c);
  for (const Trajectory& t : all) {
    const std::size_t n = t.logps.size();
    ASSERT_EQ(t.advantages.size(), n);
    for (std::size_t i = 0; i < n; ++i) {
      double want = 0;
      for (std::size_t l = i; l < n; ++l) {
        const double next = l + 1 < n ? *c.gamma * t.values[l + 1] : 0;
        want += std::pow(*c.gamma * *c.lam, double(l - i)) * (reward_of(t, l, c) + next - t.values[l]);
      }
      EXPECT_NEAR(t.advantages[i], want, 1e-12);
      EXPECT_NEAR(t.returns[i], want + t.values[i], 1e-12);
    }
    EXPECT_NEAR(worth_of(t, c), std::clamp(t.score, -1.0, 1.0) - 0.3 * t.kl(), 1e-12);
  }
}

// With lambda and gamma 1 a return is the sum of this and all later rewards.
TEST(Ppo, ReturnsAreSumsOfLaterRewards) {
  std::vector<Trajectory> all = some_answers();
  PpoSettings c = settings();
  c.gamma = c.lam = 1;
  evaluate(all, c);
  for (const Trajectory& t : all)
    for (std::size_t i = 0; i < t.logps.size(); ++i) {
      double want = 0;
      for (std::size_t l = i; l < t.logps.size(); ++l) want += reward_of(t, l, c);
      EXPECT_NEAR(t.returns[i], want, 1e-12);
    }
}

TEST(Ppo, WhiteAdvantagesHaveMeanZeroAndDeviationOne) {
  std::vector<Trajectory> all = some_answers(), plain = all;
  PpoSettings c = settings();
  evaluate(plain, c);
  c.whiten_advantages = true;
  evaluate(all, c);
  double sum = 0, squares = 0;
  for (std::size_t k = 0; k < all.size(); ++k)
    for (std::size_t i = 0; i < all[k].advantages.size(); ++i) {
      sum += all[k].advantages[i];
      squares += all[k].advantages[i] * all[k].advantages[i];
      EXPECT_EQ(all[k].returns[i], plain[k].returns[i]) << "the critic learns what it was to learn";
    }
  EXPECT_NEAR(sum, 0, 1e-12);
  EXPECT_NEAR(squares / 7, 1, 1e-6);
}

// Rewards are whitened as by TRL's masked_whiten(rewards, mask, shift_mean=False).
TEST(Ppo, WhiteRewardsKeepTheirMean) {
  std::vector<Trajectory> all = some_answers();
  PpoSettings c = settings();
  c.gamma = c.lam = 1;
  c.whiten_rewards = true;
  evaluate(all, c);
  std::vector<double> rewards, plain;
  for (const Trajectory& t : all)
    for (std::size_t i = 0; i < t.logps.size(); ++i) {
      rewards.push_back(t.returns[i] - (i + 1 < t.logps.size() ? t.returns[i + 1] : 0));
      plain.push_back(reward_of(t, i, c));
    }
  const auto mean = [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
  };
  double squares = 0;
  for (const double r : rewards) squares += (r - mean(rewards)) * (r - mean(rewards));
  EXPECT_NEAR(mean(rewards), mean(plain), 1e-12);
  EXPECT_NEAR(squares / 7, 1, 1e-6);
}

// An evaluation's loss is the mean worth, without the answers that have no reward.
TEST(Ppo, AnEvaluationIsTheMeanWorthOfItsAnswers) {
  std::vector<Trajectory> all = some_answers();
  ObjectiveConfig c(&objectives::kPpo);
  static_cast<PpoSettings&>(c) = settings();
  const auto valuation = c.type->valuation(c);
  all[2].score = NAN;
  double want = 0;
  for (const std::size_t i : {0, 1, 3}) want += worth_of(all[i], settings()) / 3;
  EXPECT_NEAR(valuation->loss(all).value(), -want, 1e-12);
  EXPECT_TRUE(valuation->needs_logps());
  EXPECT_FALSE(valuation->trains(NAN, true));
  const Measures figures = valuation->figures(all, 1);
  ASSERT_EQ(figures.size(), valuation->columns().size());
  for (std::size_t i = 0; i < figures.size(); ++i) EXPECT_EQ(figures[i].first, valuation->columns()[i]);
  EXPECT_NEAR(figures.back().second, want, 1e-12);
}

TEST(Ppo, SlopesAreThoseOfTheLosses) {
  const ObjectiveConfig c(&objectives::kPpo);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> some(-1, 1);
  Compared rows{.first_target = {0, 12, 40}, .first_answer = {0, 12}, .value = {0, 0}};
  std::vector<double> values, old;
  for (int t = 0; t < 40; ++t) {
    values.push_back(some(random) + 1);
    old.push_back(-values.back() + 0.5 * some(random));
    rows.advantages.push_back(float(some(random)));
    rows.values.push_back(float(values.back() + 0.5 * some(random)));
    rows.returns.push_back(float(some(random)));
  }
  const std::vector<float> statistics(4 * 40);
  for (const bool critic : {false, true}) {
    const auto judge = critic ? c.type->critic(c) : c.type->judge(c);
    const auto verdict = [&] { return judge->judge({rows, values, statistics, {}, 0, old}); };
    const Verdict at = verdict();
    EXPECT_EQ(at.columns.size(), judge->columns().size());
    EXPECT_TRUE(judge->counts_targets());
    int still = 0;
    for (std::size_t t = 0; t < values.size(); ++t) {
      constexpr double kStep = 1e-6;
      const double here = values[t];
      values[t] = here + kStep;
      const double above = verdict().loss;
      values[t] = here - kStep;
      const double below = verdict().loss;
      values[t] = here;
      EXPECT_NEAR((critic ? 1 : -1) * at.slopes[t], (above - below) / (2 * kStep), 1e-6)
          << critic << " " << t;
      still += at.slopes[t] == 0;
    }
    EXPECT_GT(still, 0) << "some are clipped";
  }
}

}  // namespace
}  // namespace ft
