// Group relative policy optimization (Shao et al. 2024) and its variants: DAPO (Yu et al. 2025), Dr. GRPO
// (Liu et al. 2025), GSPO (Zheng et al. 2025). As TRL's GRPOTrainer, for given answers.
#include <algorithm>
#include <limits>

#include "engine/train/objectives/judge.h"

namespace ft {
namespace {

class Grpo : public Judge {
 public:
  explicit Grpo(const ObjectiveConfig& c)
      : loss_(c.loss_type.empty() ? LossType::dapo : c.loss_type[0]),
        beta_(c.beta.value_or(0)),
        low_(1 - c.epsilon.value_or(0.2)),
        high_(1 + c.epsilon_high.value_or(c.epsilon.value_or(0.2))),
        most_(c.delta.value_or(std::numeric_limits<double>::infinity())),
        temperature_(c.temperature.value_or(1)),
        length_(static_cast<double>(c.max_completion_length.value_or(512))),
        sequences_(c.importance_sampling_level == SamplingLevel::sequence),
        corrects_(c.use_bias_correction_kl.value_or(true)) {}

  std::vector<std::string> columns() const override {
    return {"kl",     "entropy",    "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean",
            "reward", "reward_std", "frac_reward_zero_std"};
  }
  bool needs_reference() const override { return beta_ > 0; }
  bool needs_statistics() const override { return true; }
  bool needs_old() const override { return true; }
  bool counts_targets() const override { return loss_ == LossType::dapo; }
  double temperature() const override { return temperature_; }
  // Returns log p of every target, because the KL is computed for each token.
  std::vector<double> reference(const Answers& a) const override {
    std::vector<double> all;
    for (std::size_t t = 0; t < a.values.size(); ++t) all.push_back(a.logp(t));
    return all;
  }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    Sums sums;
    const double targets = static_cast<double>(a.values.size());
    for (std::size_t s = 0; s < a.count(); ++s) add_sequence(a, s, targets, v, sums);
    const double rows = sequences_ ? static_cast<double>(a.count()) : std::max(1.0, targets);
    const double each = std::max(1.0, targets);
    v.columns = {beta_ > 0 ? sums.kl / each : kNone, sums.entropy / each, sums.low / rows, sums.high / rows,
                 (sums.low + sums.high) / rows};
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
    if (loss_ == LossType::grpo) return 1 / tokens;
    if (loss_ == LossType::bnpo) return static_cast<double>(a.count()) / targets;
    return loss_ == LossType::dr_grpo ? 1 / length_ : 1;
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
      const double plain = std::min(ratio, most_) * advantage,
                   clipped = std::clamp(ratio, low_, high_) * advantage;
      const bool moves = plain < clipped ? ratio <= most_ : low_ <= ratio && ratio <= high_;
      double loss = -std::min(plain, clipped), by_ratio = moves ? -advantage : 0;
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
      const double share = sequences_ ? 1 / tokens : 1;
      sums.low += ratio < low_ && advantage < 0 ? share : 0;
      sums.high += std::min(ratio, most_) > high_ && advantage > 0 ? share : 0;
    }
    if (sequences_) v.add_slope(r, shared / tokens);
  }

  LossType loss_;
  double beta_, low_, high_, most_, temperature_, length_;
  bool sequences_, corrects_;
};

}  // namespace

std::unique_ptr<Judge> make_grpo(const ObjectiveConfig& c) { return std::make_unique<Grpo>(c); }

}  // namespace ft
