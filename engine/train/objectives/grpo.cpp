// Group relative policy optimization (Shao et al. 2024) and its variants: DAPO (Yu et al. 2025), Dr. GRPO
// (Liu et al. 2025), GSPO (Zheng et al. 2025), CISPO (MiniMax 2025), SAPO (Gao et al. 2025). As TRL's
// GRPOTrainer, for given answers.
#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/rollouts.h"
#include "engine/train/objectives/valuation.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

enum class GrpoLoss : std::uint8_t { dapo, grpo, bnpo, dr_grpo, cispo, sapo };
constexpr auto words(GrpoLoss) {
  using enum GrpoLoss;
  return to_words<GrpoLoss>({{dapo, "dapo"},
                             {grpo, "grpo"},
                             {bnpo, "bnpo"},
                             {dr_grpo, "dr_grpo"},
                             {cispo, "cispo"},
                             {sapo, "sapo"}});
}

// A token's loss without the KL, and its derivatives by the ratio and by log p.
struct Surrogate {
  double loss, by_ratio, by_logp = 0;
};

class Grpo : public Judge {
 public:
  explicit Grpo(const ObjectiveConfig& c)
      : loss_(losses_of<GrpoLoss>(c)[0]),
        beta_(c.beta.value_or(0)),
        low_(c.low()),
        high_(c.high()),
        cap_(c.epsilon_high.value_or(c.epsilon.value_or(0.2))),
        most_(c.delta.value_or(std::numeric_limits<double>::infinity())),
        steep_(c.sapo_temperature_pos.value_or(1)),
        steep_below_(c.sapo_temperature_neg.value_or(1.05)),
        temperature_(c.temperature.value_or(1)),
        length_(static_cast<double>(c.answer_length())),
        sequences_(c.importance_sampling_level == SamplingLevel::sequence),
        corrects_(c.use_bias_correction_kl.value_or(true)) {}

  std::vector<std::string> columns() const override {
    std::vector<std::string> all{"kl", "entropy"};
    if (loss_ == GrpoLoss::cispo)
      all.emplace_back("cispo_clip_ratio");
    else if (loss_ != GrpoLoss::sapo)
      all.insert(all.end(), {"clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"});
    all.insert(all.end(), {"reward", "reward_std", "frac_reward_zero_std"});
    return all;
  }
  bool needs_reference() const override { return beta_ > 0; }
  bool needs_statistics() const override { return true; }
  bool needs_old() const override { return true; }
  bool counts_targets() const override { return loss_ == GrpoLoss::dapo || loss_ == GrpoLoss::cispo; }
  double temperature() const override { return temperature_; }
  // Returns log p of every target, because the KL is computed for each token.
  std::vector<double> reference(const Answers& a) const override { return a.logps(); }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    Sums sums;
    const double targets = static_cast<double>(a.values.size());
    for (std::size_t s = 0; s < a.count(); ++s) add_sequence(a, s, targets, v, sums);
    const double rows = sequences_ ? static_cast<double>(a.count()) : std::max(1.0, targets);
    const double each = std::max(1.0, targets);
    v.columns = {beta_ > 0 ? sums.kl / each : kNone, sums.entropy / each};
    if (loss_ == GrpoLoss::cispo)
      v.columns.push_back(sums.high / rows);
    else if (loss_ != GrpoLoss::sapo)
      v.columns.insert(v.columns.end(), {sums.low / rows, sums.high / rows, (sums.low + sums.high) / rows});
    for (std::size_t i = 0; i < 3; ++i)
      v.columns.push_back(a.rows.figures.empty() ? kNone : a.rows.figures[i]);
    return v;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  struct Sums {
    double kl = 0, entropy = 0, low = 0, high = 0;  // sums over tokens, or rows
  };

  // Returns a token's weight in the loss, which is the sum over the batch's rows.
  double weight(const Answers& a, double tokens, double targets) const {
    if (loss_ == GrpoLoss::grpo || loss_ == GrpoLoss::sapo) return 1 / tokens;
    if (loss_ == GrpoLoss::bnpo) return static_cast<double>(a.count()) / targets;
    return loss_ == GrpoLoss::dr_grpo ? 1 / length_ : 1;
  }

  // With s = sigmoid(t (ratio - 1)), t by the sign of the advantage A: cispo -min(ratio, cap) A log p, whose
  // factor has no gradient; sapo -4 s A / t; the others -min(min(ratio, delta) A, clamp(ratio) A).
  Surrogate surrogate(double ratio, double advantage, double logp) const {
    if (loss_ == GrpoLoss::cispo) {
      const double factor = -std::min(ratio, cap_) * advantage;
      return {factor * logp, 0, factor};
    }
    if (loss_ == GrpoLoss::sapo) {
      const double t = advantage > 0 ? steep_ : steep_below_, s = sigmoid(t * (ratio - 1));
      return {-4 * s / t * advantage, -4 * s * (1 - s) * advantage};
    }
    const double plain = std::min(ratio, most_) * advantage,
                 clipped = std::clamp(ratio, low_, high_) * advantage;
    const bool moves = plain < clipped ? ratio <= most_ : low_ <= ratio && ratio <= high_;
    return {-std::min(plain, clipped), moves ? -advantage : 0};
  }

  void count_clipped(double ratio, double advantage, double share, Sums& sums) const {
    const double high = loss_ == GrpoLoss::cispo ? cap_ : high_;
    sums.low += ratio < low_ && advantage < 0 ? share : 0;
    sums.high += std::min(ratio, most_) > high && advantage > 0 ? share : 0;
  }

  void add_sequence(const Answers& a, std::size_t s, double targets, Verdict& v, Sums& sums) const {
    const Answers::Range r = a.answer(s);
    if (r.begin == r.end) return;
    const double tokens = r.count(), each = weight(a, tokens, targets);
    const auto advantage = static_cast<double>(a.rows.value[s]);
    double mean = 0;  // mean of the log ratios; shared by all tokens at the level of sequences
    for (std::size_t t = r.begin; t < r.end; ++t) mean += (a.logp(t) - a.old[t]) / tokens;
    double shared = 0;  // d loss / d mean
    for (std::size_t t = r.begin; t < r.end; ++t) {
      const double ratio = std::exp(sequences_ ? mean : a.logp(t) - a.old[t]);
      const Surrogate of = surrogate(ratio, advantage, a.logp(t));
      const double weight = a.weight(t);
      double loss = weight * of.loss, by_ratio = weight * of.by_ratio;
      v.slopes[t] += each * weight * of.by_logp;
      if (beta_ > 0) {
        const double ahead = a.reference[t] - a.logp(t), kl = std::exp(ahead) - ahead - 1;
        const double scale = corrects_ ? ratio : 1;
        loss += beta_ * kl * scale;
        v.slopes[t] += each * beta_ * (1 - std::exp(ahead)) * scale;
        if (corrects_) by_ratio += beta_ * kl;
        sums.kl += kl * scale;
      }
      v.loss += each * loss;
      (sequences_ ? shared : v.slopes[t]) += each * by_ratio * ratio;
      sums.entropy += a.statistic(t, 0);
      count_clipped(ratio, advantage, sequences_ ? 1 / tokens : 1, sums);
    }
    if (sequences_) v.add_slope(r, shared / tokens);
  }

  GrpoLoss loss_;
  double beta_, low_, high_, cap_, most_, steep_, steep_below_, temperature_, length_;
  bool sequences_, corrects_;
};

// Compares an answer's reward with its group's.
class GroupValuation final : public Valuation {
 public:
  explicit GroupValuation(const ObjectiveConfig& c)
      : scale_(c.scale_rewards.value_or(ScaleRewards::group)),
        masks_(c.mask_truncated_completions.value_or(false)) {}

  bool trains(double, bool ended) const override { return ended || !masks_; }
  void value(std::span<Trajectory> all, std::int64_t group) const override {
    const std::vector<double> worth = advantages(rewards_of(all), group, scale_);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].advantage = worth[i];
  }
  Measures figures(std::span<const Trajectory> all, std::int64_t group) const override {
    const std::vector<double> of = reward_figures(rewards_of(all), group, scale_);
    return {{"reward", of[0]}, {"reward_std", of[1]}, {"frac_reward_zero_std", of[2]}};
  }

 private:
  ScaleRewards scale_;
  bool masks_;
};

// Throws for settings of generation if the answers come from a file, because it does not tell how they were
// made.
void check_given(const ObjectiveConfig& c, const Refuse& refuse) {
  for (const auto& [given, name] :
       {std::pair{c.steps_per_generation.has_value(), "steps_per_generation"},
        std::pair{c.mask_truncated_completions.has_value(), "mask_truncated_completions"},
        std::pair{c.top_k.has_value(), "top_k"}, std::pair{c.top_p.has_value(), "top_p"},
        std::pair{c.min_p.has_value(), "min_p"},
        std::pair{c.repetition_penalty.has_value(), "repetition_penalty"},
        std::pair{!c.reward_weights.empty(), "reward_weights"},
        std::pair{c.num_generations_eval.has_value(), "num_generations_eval"}})
    if (given)
      refuse(str("objective.", name,
                 ": answers are given, not generated; objective.reward_funcs or "
                 "objective.reward_command would have them generated"));
  if (c.max_completion_length && losses_of<GrpoLoss>(c)[0] != GrpoLoss::dr_grpo)
    refuse("objective.max_completion_length: has no effect without objective.loss_type=dr_grpo");
}

// Throws for settings that the loss type does not read.
void check_loss(const ObjectiveConfig& c, const Refuse& refuse) {
  const GrpoLoss loss = losses_of<GrpoLoss>(c)[0];
  const bool sapo = loss == GrpoLoss::sapo, cispo = loss == GrpoLoss::cispo;
  for (const auto& [given, name] : {std::pair{c.sapo_temperature_pos.has_value(), "sapo_temperature_pos"},
                                    std::pair{c.sapo_temperature_neg.has_value(), "sapo_temperature_neg"}})
    if (given && !sapo) refuse(str("objective.", name, ": has no effect without objective.loss_type=sapo"));
  if (cispo && c.epsilon && c.epsilon_high)
    refuse("objective.epsilon: has no effect beside objective.epsilon_high with objective.loss_type=cispo");
  for (const auto& [given, name] :
       {std::pair{sapo && c.epsilon, "epsilon"}, std::pair{sapo && c.epsilon_high, "epsilon_high"},
        std::pair{(sapo || cispo) && c.delta, "delta"}})
    if (given)
      refuse(str("objective.", name, ": has no effect with objective.loss_type=", sapo ? "sapo" : "cispo"));
}

void check_grpo(const ObjectiveConfig& c, const Refuse& refuse) {
  check_loss(c, refuse);
  const bool kl = c.beta.value_or(0) > 0;
  if (!kl && c.ref_model_name_or_path)
    refuse("objective.ref_model_name_or_path: has no effect without objective.beta");
  if (!kl && c.use_bias_correction_kl)
    refuse("objective.use_bias_correction_kl: has no effect without objective.beta");
  check_rewards(c, refuse);
  check_rollout_server(c, refuse);
  if (c.rewards() == 0) check_given(c, refuse);
  check_group(c, refuse);
  if (c.epsilon.value_or(0.2) > 1 && losses_of<GrpoLoss>(c)[0] != GrpoLoss::cispo)
    refuse("objective.epsilon: is at most 1");
}

ObjectiveNeeds needs_of_grpo(const ObjectiveConfig& c) {
  const std::int64_t group = c.num_generations.value_or(8);
  return {.reference = c.beta.value_or(0) > 0,
          .generates = c.rewards() > 0,
          .group = group,
          .group_eval = c.num_generations_eval.value_or(group),
          .scale = c.scale_rewards.value_or(ScaleRewards::group)};
}

std::unique_ptr<Judge> make_grpo(const ObjectiveConfig& c) { return std::make_unique<Grpo>(c); }

std::unique_ptr<const Valuation> value_by_group(const ObjectiveConfig& c) {
  return std::make_unique<GroupValuation>(c);
}

}  // namespace

const ObjectiveKind objectives::kGrpo{
    .name = "grpo",
    .rate = {1e-6, 1e-6, &schedules::kLinear},
    .rows = ObjectiveRows::rollouts,
    .settings =
        settings_of<LossSettings, BetaSetting, ReferenceSetting, TemperatureSetting, GroupSettings,
                    ClipSettings, GrpoSettings, AnswerRewards, AnswerGeneration, RolloutServerSettings>,
    .losses = loss_words<GrpoLoss>,
    .check = check_grpo,
    .needs = needs_of_grpo,
    .judge = make_grpo,
    .valuation = value_by_group};

}  // namespace ft
