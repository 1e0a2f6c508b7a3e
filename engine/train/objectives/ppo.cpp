// Proximal policy optimization: the judges of the policy and of its critic.
#include "engine/train/objectives/ppo.h"

#include <algorithm>
#include <cmath>

#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/rollouts.h"
#include "engine/train/objectives/valuation.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

double clipped_score(const Trajectory& t, const PpoSettings& c) {
  const double most = c.cliprange_reward.value_or(5);
  return std::clamp(t.score, -most, most);
}

// Scales all tokens' values to deviation 1, and shifts them to mean 0 or keeps their mean.
void whiten(std::span<std::vector<double>> all, bool keeps_mean) {
  double n = 0, mean = 0, squares = 0;
  for (const auto& tokens : all)
    for (const double x : tokens) mean += x, ++n;
  mean /= std::max(1.0, n);
  for (const auto& tokens : all)
    for (const double x : tokens) squares += (x - mean) * (x - mean);
  const double by = 1 / std::sqrt(squares / std::max(1.0, n - 1) + 1e-8);
  for (auto& tokens : all)
    for (double& x : tokens) x = (x - mean) * by + (keeps_mean ? mean : 0);
}

std::vector<double> token_rewards(const Trajectory& t, const PpoSettings& c) {
  std::vector<double> r(t.logps.size());
  for (std::size_t i = 0; i < t.reference.size(); ++i) r[i] = -c.kl_weight() * (t.logps[i] - t.reference[i]);
  if (!r.empty()) r.back() += clipped_score(t, c);
  return r;
}

class Actor : public Judge {
 public:
  explicit Actor(const ObjectiveConfig& c)
      : clip_(c.cliprange.value_or(0.2)), temperature_(c.temperature.value_or(1)) {}

  std::vector<std::string> columns() const override {
    return {"loss/policy_avg", "policy/approxkl_avg", "policy/clipfrac_avg", "policy/entropy_avg",
            "val/ratio"};
  }
  bool needs_statistics() const override { return true; }
  bool needs_old() const override { return true; }
  bool counts_targets() const override { return true; }
  double temperature() const override { return temperature_; }
  // Returns log p of every target, because the KL is computed for each token.
  std::vector<double> reference(const Answers& a) const override { return a.logps(); }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    double squares = 0, clipped = 0, entropy = 0, ratios = 0;
    for (std::size_t t = 0; t < a.values.size(); ++t) {
      const double ahead = a.logp(t) - a.old[t], ratio = std::exp(ahead),
                   worth = static_cast<double>(a.rows.advantages[t]);
      const double plain = -worth * ratio, cut = -worth * std::clamp(ratio, 1 - clip_, 1 + clip_);
      v.loss += std::max(plain, cut);
      v.slopes[t] = plain >= cut ? plain : 0;
      squares += ahead * ahead / 2;
      clipped += cut > plain;
      entropy += a.statistic(t, 0);
      ratios += ratio;
    }
    const double n = std::max<double>(1, static_cast<double>(a.values.size()));
    v.columns = {v.loss / n, squares / n, clipped / n, entropy / n, ratios / n};
    return v;
  }

 private:
  double clip_, temperature_;
};

// Judges the critic; its values are scores.
class Critic : public Judge {
 public:
  explicit Critic(const PpoSettings& c) : clip_(c.cliprange_value.value_or(0.2)) {}

  std::vector<std::string> columns() const override { return {"loss/value_avg", "val/clipfrac_avg"}; }
  bool counts_targets() const override { return true; }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    double clipped = 0;
    for (std::size_t t = 0; t < a.values.size(); ++t) {
      const auto wanted = static_cast<double>(a.rows.returns[t]), old = static_cast<double>(a.rows.values[t]);
      const double off = a.values[t] - wanted,
                   cut = std::clamp(a.values[t], old - clip_, old + clip_) - wanted;
      const bool moves = off * off >= cut * cut;
      v.loss += (moves ? off * off : cut * cut) / 2;
      v.slopes[t] = moves ? off : 0;
      clipped += !moves;
    }
    const double n = std::max<double>(1, static_cast<double>(a.values.size()));
    v.columns = {v.loss / n, clipped / n};
    return v;
  }

 private:
  double clip_;
};

// Distributes an answer's reward over its tokens. An answer without a reward is not trained.
class TokenValuation final : public Valuation {
 public:
  explicit TokenValuation(const PpoSettings& c) : settings_(c) {}

  bool needs_logps() const override { return true; }
  bool by_token() const override { return true; }
  bool trains(double score, bool) const override { return !std::isnan(score); }
  void value(std::span<Trajectory> all, std::int64_t) const override { evaluate(all, settings_); }
  std::vector<std::string> columns() const override {
    return {"reward",
            "reward_std",
            "objective/scores",
            "objective/kl",
            "objective/entropy",
            "objective/non_score_reward",
            "objective/rlhf_reward"};
  }
  // Returns means over the answers that have a reward.
  Measures figures(std::span<const Trajectory> all, std::int64_t) const override {
    const Sums s = sums(all);
    const MeanAndDeviation rewards = mean_and_deviation(rewards_of(all));
    return {{"reward", rewards.mean},
            {"reward_std", rewards.deviation},
            {"objective/scores", s.score / s.n},
            {"objective/kl", s.kl / s.n},
            {"objective/entropy", s.entropy / s.n},
            {"objective/non_score_reward", -settings_.kl_weight() * s.kl / s.n},
            {"objective/rlhf_reward", s.worth / s.n}};
  }
  // Returns the negative of the reward that PPO maximises.
  std::optional<double> loss(std::span<const Trajectory> all) const override {
    const Sums s = sums(all);
    return -(s.worth / s.n);
  }

 private:
  struct Sums {
    double n = 0, score = 0, kl = 0, entropy = 0, worth = 0;
  };
  Sums sums(std::span<const Trajectory> all) const {
    Sums s;
    for (const Trajectory& t : all) {
      if (std::isnan(t.score)) continue;
      ++s.n;
      s.score += t.score;
      s.kl += t.kl();
      for (const double logp : t.logps) s.entropy -= logp;
      s.worth += worth_of(t, settings_);
    }
    return s;
  }

  PpoSettings settings_;
};

void check_ppo(const ObjectiveConfig& c, const Refuse& refuse) {
  require_rewards(c, refuse);
  if (c.kl_weight() == 0 && c.ref_model_name_or_path)
    refuse("objective.ref_model_name_or_path: has no effect with objective.kl_coef=0");
  if (c.cliprange.value_or(0.2) > 1) refuse("objective.cliprange: is at most 1");
  check_rewards(c, refuse);
}

ObjectiveNeeds needs_of_ppo(const ObjectiveConfig& c) {
  return {.reference = c.kl_weight() > 0, .generates = true};
}

std::unique_ptr<Judge> make_actor(const ObjectiveConfig& c) { return std::make_unique<Actor>(c); }
std::unique_ptr<Judge> make_critic(const ObjectiveConfig& c) { return std::make_unique<Critic>(c); }

std::unique_ptr<const Valuation> value_by_token(const ObjectiveConfig& c) {
  return std::make_unique<TokenValuation>(c);
}

}  // namespace

double worth_of(const Trajectory& t, const PpoSettings& c) {
  return clipped_score(t, c) - c.kl_weight() * t.kl();
}

void evaluate(std::span<Trajectory> all, const PpoSettings& c) {
  std::vector<std::vector<double>> rewards, advantages;
  for (const Trajectory& t : all) rewards.push_back(token_rewards(t, c));
  if (c.whiten_rewards.value_or(false)) whiten(rewards, true);
  const double gamma = c.gamma.value_or(1), lambda = c.lam.value_or(0.95);
  for (std::size_t k = 0; k < all.size(); ++k) {
    Trajectory& t = all[k];
    const std::size_t n = t.logps.size();
    std::vector<double> ahead(n);
    t.returns.resize(n);
    for (std::size_t i = n; i-- > 0;) {
      const bool last = i + 1 == n;
      const double delta = rewards[k][i] + (last ? 0 : gamma * t.values[i + 1]) - t.values[i];
      ahead[i] = delta + (last ? 0 : gamma * lambda * ahead[i + 1]);
      t.returns[i] = ahead[i] + t.values[i];
    }
    advantages.push_back(std::move(ahead));
  }
  if (c.whiten_advantages.value_or(false)) whiten(advantages, false);
  for (std::size_t k = 0; k < all.size(); ++k) all[k].advantages = std::move(advantages[k]);
}

const ObjectiveKind objectives::kPpo{
    .name = "ppo",
    .rate = {3e-6, 3e-6, &schedules::kLinear},
    .rows = ObjectiveRows::rollouts,
    .settings =
        settings_of<ReferenceSetting, TemperatureSetting, AnswerRewards, AnswerGeneration, PpoSettings>,
    .check = check_ppo,
    .needs = needs_of_ppo,
    .judge = make_actor,
    .critic = make_critic,
    .valuation = value_by_token};

}  // namespace ft
