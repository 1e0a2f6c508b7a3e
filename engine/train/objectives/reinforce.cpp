// REINFORCE++ (Hu et al. 2025): PPO's loss without a critic. A token's advantage is the sum of the rewards
// from it on, where the KL to the reference is a part of each token's reward, brought to mean 0 and deviation
// 1 over all tokens of a generation.
#include "engine/train/objectives/reinforce.h"

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "engine/train/objectives/clipped_ratio.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/rollouts.h"
#include "engine/train/objectives/valuation.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

// An action is a token, with its own advantage.
class Reinforce final : public ClippedRatio {
 public:
  using ClippedRatio::ClippedRatio;
  bool counts_targets() const override { return true; }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    Sums sums;
    for (std::size_t t = 0; t < a.values.size(); ++t) {
      v.slopes[t] =
          add({a.logp(t) - a.old[t], static_cast<double>(a.rows.advantages[t]), a.weight(t)}, v, sums);
      sums.entropy += a.statistic(t, 0);
    }
    const auto tokens = static_cast<double>(a.values.size()), n = std::max(1.0, tokens);
    v.columns = {sums.entropy / n, sums.low / n, sums.high / n, (sums.low + sums.high) / n};
    v.counts.assign(4, tokens);
    return v;
  }
};

// Distributes an answer's reward over its tokens. An answer without a reward is not trained.
class SumsAhead final : public Valuation {
 public:
  explicit SumsAhead(const ObjectiveConfig& c)
      : beta_(c.beta.value_or(kReinforceBeta)),
        range_(c.reward_clip_range),
        baseline_(c.group_baseline.value_or(false)),
        normalizes_(c.normalize_advantages.value_or(true)),
        masks_(c.mask_truncated_completions.value_or(false)) {}

  bool needs_logps() const override { return true; }
  bool by_token() const override { return true; }
  bool trains(double score, bool ended) const override { return !std::isnan(score) && (ended || !masks_); }
  void value(std::span<Trajectory> all, std::int64_t group) const override {
    std::vector<double> rewards = rewards_of(all);
    if (baseline_) rewards = advantages(rewards, group, ScaleRewards::none);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!range_.empty()) rewards[i] = std::clamp(rewards[i], range_[0], range_[1]);
      sum_ahead(all[i], rewards[i]);
    }
    if (normalizes_) normalize(all);
  }
  std::vector<std::string> columns() const override {
    std::vector<std::string> all{"reward", "reward_std"};
    if (baseline_) all.emplace_back("frac_reward_zero_std");
    if (beta_ > 0) all.emplace_back("kl");
    return all;
  }
  Measures figures(std::span<const Trajectory> all, std::int64_t group) const override {
    const std::vector<double> rewards = rewards_of(all);
    const auto [mean, deviation] = mean_and_deviation(rewards);
    Measures figures{{"reward", mean}, {"reward_std", deviation}};
    if (baseline_)
      figures.emplace_back("frac_reward_zero_std", reward_figures(rewards, group, ScaleRewards::group)[2]);
    if (beta_ > 0) figures.emplace_back("kl", kl_of_token(all));
    return figures;
  }

 private:
  void sum_ahead(Trajectory& t, double reward) const {
    const std::size_t n = t.logps.size();
    t.values.assign(n, 0);
    t.returns.resize(n);
    double ahead = reward;
    for (std::size_t i = n; i-- > 0;) {
      if (beta_ > 0) ahead -= beta_ * (t.logps[i] - t.reference[i]);
      t.returns[i] = ahead;
    }
    t.advantages = t.returns;
  }

  // Divides by the root of the variance over all tokens, at least 1e-8, as OpenRLHF does.
  static void normalize(std::span<Trajectory> all) {
    double n = 0, mean = 0, squares = 0;
    for (const Trajectory& t : all)
      for (const double x : t.advantages) mean += x, ++n;
    n = std::max(1.0, n);
    mean /= n;
    for (const Trajectory& t : all)
      for (const double x : t.advantages) squares += (x - mean) * (x - mean);
    const double by = 1 / std::sqrt(std::max(1e-8, squares / n));
    for (Trajectory& t : all)
      for (double& x : t.advantages) x = (x - mean) * by;
  }

  double beta_;
  std::vector<double> range_;
  bool baseline_, normalizes_, masks_;
};

void check_reinforce(const ObjectiveConfig& c, const Refuse& refuse) {
  check_clipped_ratio(c, refuse);
  if (c.group_baseline.value_or(false)) check_group(c, refuse);
  check_rewards(c, refuse);
  check_rollout_server(c, refuse);
}

ObjectiveNeeds needs_of_reinforce(const ObjectiveConfig& c) {
  const std::int64_t group = c.num_generations.value_or(c.group_baseline.value_or(false) ? 8 : 1);
  return {.reference = c.beta.value_or(kReinforceBeta) > 0,
          .generates = true,
          .group = group,
          .group_eval = c.num_generations_eval.value_or(group)};
}

std::unique_ptr<Judge> make_reinforce(const ObjectiveConfig& c) { return std::make_unique<Reinforce>(c); }

std::unique_ptr<const Valuation> value_by_sums_ahead(const ObjectiveConfig& c) {
  return std::make_unique<SumsAhead>(c);
}

}  // namespace

const ObjectiveKind objectives::kReinforce{
    .name = "reinforce++",
    .rate = {1e-6, 1e-6, &schedules::kLinear},
    .rows = ObjectiveRows::rollouts,
    .settings =
        settings_of<BetaSetting, ReferenceSetting, TemperatureSetting, GroupSettings, ClipSettings,
                    RlooSettings, ReinforceSettings, AnswerRewards, AnswerGeneration, RolloutServerSettings>,
    .check = check_reinforce,
    .needs = needs_of_reinforce,
    .judge = make_reinforce,
    .valuation = value_by_sums_ahead};

}  // namespace ft
