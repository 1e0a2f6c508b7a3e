// REINFORCE with a leave-one-out baseline (Ahmadian et al. 2024), as TRL's RLOOTrainer: an answer's advantage
// is its reward less the mean reward of the other answers to its prompt. An answer is one action: a ratio to
// the old policy is of the probabilities of complete answers.
#include "engine/train/objectives/rloo.h"

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

// An action is an answer, with its own advantage.
class Rloo final : public ClippedRatio {
 public:
  using ClippedRatio::ClippedRatio;

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    Sums sums;
    for (std::size_t s = 0; s < a.count(); ++s) {
      const Answers::Range r = a.answer(s);
      double ahead = 0;
      for (std::size_t t = r.begin; t < r.end; ++t) {
        ahead += a.logp(t) - a.old[t];
        sums.entropy += a.statistic(t, 0);
      }
      const double weight = r.begin < r.end ? a.weight(r.begin) : 1;
      v.add_slope(r, add({ahead, static_cast<double>(a.rows.value[s]), weight}, v, sums));
    }
    const auto rows = static_cast<double>(a.count()), tokens = static_cast<double>(a.values.size());
    v.columns = {sums.entropy / std::max(1.0, tokens), sums.low / rows, sums.high / rows,
                 (sums.low + sums.high) / rows};
    v.counts = {tokens, rows, rows, rows};
    return v;
  }
};

// Rewards less the weighted KL to the reference, compared with the mean of the other answers to the prompt.
class LeaveOneOut final : public Valuation {
 public:
  explicit LeaveOneOut(const ObjectiveConfig& c)
      : beta_(c.beta.value_or(kRlooBeta)),
        range_(c.reward_clip_range),
        normalizes_(c.normalize_advantages.value_or(false)),
        masks_(c.mask_truncated_completions.value_or(false)) {}

  bool needs_logps() const override { return beta_ > 0; }
  bool trains(double, bool ended) const override { return ended || !masks_; }
  void value(std::span<Trajectory> all, std::int64_t group) const override {
    std::vector<double> leads = leave_one_out(worth(all), group);
    if (normalizes_) {
      const auto [mean, deviation] = mean_and_deviation(leads);
      for (double& lead : leads) lead = (lead - mean) / (deviation + 1e-4);
    }
    for (std::size_t i = 0; i < all.size(); ++i) all[i].advantage = std::isnan(leads[i]) ? 0 : leads[i];
  }
  std::vector<std::string> columns() const override {
    std::vector<std::string> all{"reward", "reward_std", "frac_reward_zero_std"};
    if (beta_ > 0) all.emplace_back("kl");
    return all;
  }
  Measures figures(std::span<const Trajectory> all, std::int64_t group) const override {
    const auto [mean, deviation] = mean_and_deviation(rewards_of(all));
    Measures figures{{"reward", mean},
                     {"reward_std", deviation},
                     {"frac_reward_zero_std", reward_figures(worth(all), group, ScaleRewards::group)[2]}};
    if (beta_ > 0) figures.emplace_back("kl", kl_of_token(all));
    return figures;
  }

 private:
  std::vector<double> worth(std::span<const Trajectory> all) const {
    std::vector<double> rewards = rewards_of(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!range_.empty() && !std::isnan(rewards[i]))
        rewards[i] = std::clamp(rewards[i], range_[0], range_[1]);
      if (beta_ > 0) rewards[i] -= beta_ * all[i].kl();
    }
    return rewards;
  }

  double beta_;
  std::vector<double> range_;
  bool normalizes_, masks_;
};

void check_rloo(const ObjectiveConfig& c, const Refuse& refuse) {
  check_clipped_ratio(c, refuse);
  check_group(c, refuse);
  check_rewards(c, refuse);
  check_rollout_server(c, refuse, true);
}

ObjectiveNeeds needs_of_rloo(const ObjectiveConfig& c) {
  const std::int64_t group = c.num_generations.value_or(2);
  return {.reference = c.beta.value_or(kRlooBeta) > 0,
          .generates = true,
          .group = group,
          .group_eval = c.num_generations_eval.value_or(group)};
}

std::unique_ptr<Judge> make_rloo(const ObjectiveConfig& c) { return std::make_unique<Rloo>(c); }

std::unique_ptr<const Valuation> value_by_leaving_one_out(const ObjectiveConfig& c) {
  return std::make_unique<LeaveOneOut>(c);
}

}  // namespace

void check_clip_range(const RlooSettings& c, const Refuse& refuse) {
  const std::vector<double>& range = c.reward_clip_range;
  if (!range.empty() && (range.size() != 2 || range[0] >= range[1]))
    refuse("objective.reward_clip_range: is two numbers, the least and the most, such as [-1, 1]");
}

std::vector<double> leave_one_out(const std::vector<double>& rewards, std::int64_t group) {
  const auto n = static_cast<std::size_t>(group);
  std::vector<double> leads;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    double others = 0, count = 0;
    for (std::size_t k = i / n * n; k < i / n * n + n; ++k)
      if (k != i && !std::isnan(rewards[k])) others += rewards[k], ++count;
    leads.push_back(rewards[i] - others / count);
  }
  return leads;
}

const ObjectiveKind objectives::kRloo{
    .name = "rloo",
    .rate = {1e-6, 1e-6, &schedules::kLinear},
    .rows = ObjectiveRows::rollouts,
    .settings = settings_of<BetaSetting, ReferenceSetting, TemperatureSetting, GroupSettings, ClipSettings,
                            RlooSettings, AnswerRewards, AnswerGeneration, RolloutServerSettings>,
    .check = check_rloo,
    .needs = needs_of_rloo,
    .judge = make_rloo,
    .valuation = value_by_leaving_one_out};

}  // namespace ft
