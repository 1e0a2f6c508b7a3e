// Direct preference optimization (Rafailov et al. 2023) and its variants, added up as in TRL's DPOTrainer.
#include <algorithm>
#include <compare>
#include <numeric>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/pair_losses.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

using Values = std::vector<double>;

// Returns the indices from the smallest value to the largest; NaN has a place too.
std::vector<std::size_t> sorted(const Values& v) {
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::is_lt(std::strong_order(v[a], v[b])); });
  return order;
}

Values minus(const Values& a, const Values& b) {
  Values d(a.size());
  std::transform(a.begin(), a.end(), b.begin(), d.begin(), std::minus<>());
  return d;
}

class Dpo : public Judge {
 public:
  explicit Dpo(const ObjectiveConfig& c)
      : losses_(losses_of<DpoLoss>(c)),
        weights_(c.loss_weights),
        options_{c.beta.value_or(0.1), c.label_smoothing.value_or(0), c.discopop_tau.value_or(0.05)},
        tail_(c.ld_alpha.value_or(1)),
        divergence_(c.f_divergence_type.value_or(FDivergence::reverse_kl)),
        alpha_(c.f_alpha_divergence_coef.value_or(0.5)),
        weighting_(c.use_weighting.value_or(false)) {
    if (weights_.empty()) weights_.assign(losses_.size(), 1);
  }

  std::vector<std::string> columns() const override {
    std::vector<std::string> all = kPairColumns;
    for (const char* name : {"entropy", "logits/chosen", "logits/rejected", "mean_token_accuracy"})
      all.emplace_back(name);
    return all;
  }
  bool needs_reference() const override { return true; }
  bool needs_statistics() const override { return true; }
  bool counts_columns() const override { return true; }

  // Weights tokens beyond the shorter answer's length by ld_alpha (LD-DPO, Liu et al. 2024).
  double logp(const Answers& a, std::size_t s) const override {
    const Answers::Range all = a.answer(s), head = shared(a, s);
    return a.sum(head) + (tail_ == 0 ? 0 : tail_ * a.sum({head.end, all.end}));
  }

  Verdict judge(const Answers& a) const override {
    const Pairs p = pairs_of(a);
    Verdict v(a);
    Values c_slopes(a.count()), r_slopes(a.count());
    for (std::size_t l = 0; l < losses_.size(); ++l)
      add(losses_[l], weights_[l], a, p, v, c_slopes, r_slopes);
    for (std::size_t i = 0; i < a.count(); ++i) {
      add_slopes(v, a, 2 * i, c_slopes[i]);
      add_slopes(v, a, 2 * i + 1, r_slopes[i]);
    }
    add_pair_columns(v, options_.beta, p.c, p.r, p.logp_c, p.logp_r);
    add_statistics(v, a);
    return v;
  }

 private:
  struct Pairs {
    Values logp_c, logp_r, ref_c, ref_r, c, r;  // log-probabilities, and their differences
    Values weights;                             // of WPO, else 1
  };

  static Answers::Range shared(const Answers& a, std::size_t s) {
    const Answers::Range own = a.answer(s), other = a.answer(s ^ 1);
    return {own.begin, own.begin + std::min(own.end - own.begin, other.end - other.begin)};
  }

  void add_slopes(Verdict& v, const Answers& a, std::size_t s, double slope) const {
    const Answers::Range head = shared(a, s);
    v.add_slope(head, slope);
    v.add_slope({head.end, a.answer(s).end}, slope * tail_);
  }

  Pairs pairs_of(const Answers& a) const {
    Pairs p;
    for (std::size_t i = 0; i < a.count(); ++i) {
      p.logp_c.push_back(logp(a, 2 * i));
      p.logp_r.push_back(logp(a, 2 * i + 1));
      p.ref_c.push_back(a.reference[2 * i]);
      p.ref_r.push_back(a.reference[2 * i + 1]);
      p.weights.push_back(weighting_ ? likely(a, 2 * i) * likely(a, 2 * i + 1) : 1);
    }
    p.c = minus(p.logp_c, p.ref_c);
    p.r = minus(p.logp_r, p.ref_r);
    return p;
  }

  // Returns WPO's weight of an answer (Zhou et al. 2024): its likelihood relative to the policy's typical
  // answers.
  static double likely(const Answers& a, std::size_t s) {
    const Answers::Range r = a.answer(s);
    double sum = 0;
    for (std::size_t t = r.begin; t < r.end; ++t) sum += a.logp(t) - a.statistic(t, 3);
    return std::exp(sum / std::max(1.0, r.count()));
  }

  void add(DpoLoss type, double weight, const Answers& a, const Pairs& p, Verdict& v, Values& c_slopes,
           Values& r_slopes) const {
    if (type == DpoLoss::sft) return add_examples(weight, a, p, v);
    if (type == DpoLoss::aot) {
      const Values policy = minus(p.logp_c, p.logp_r), reference = minus(p.ref_c, p.ref_r);
      const auto order = sorted(policy), other = sorted(reference);
      for (std::size_t k = 0; k < order.size(); ++k) {
        const Mapped m = smoothed_loss(policy[order[k]] - reference[other[k]], options_);
        v.loss += weight * m.value;
        c_slopes[order[k]] += weight * m.slope;
        r_slopes[order[k]] -= weight * m.slope;
      }
    } else if (type == DpoLoss::aot_unpaired) {
      const auto order = sorted(p.c), other = sorted(p.r);
      for (std::size_t k = 0; k < order.size(); ++k) {
        const Mapped m = smoothed_loss(p.c[order[k]] - p.r[other[k]], options_);
        v.loss += weight * m.value;
        c_slopes[order[k]] += weight * m.slope;
        r_slopes[other[k]] -= weight * m.slope;
      }
    } else {
      for (std::size_t i = 0; i < a.count(); ++i) {
        const PairLoss one = pair_loss(type, scores(a, p, i), options_);
        const double w = weight * p.weights[i];
        v.loss += w * one.loss;
        c_slopes[i] += w * one.c_slope;
        r_slopes[i] += w * one.r_slope;
      }
    }
  }

  PairScores scores(const Answers& a, const Pairs& p, std::size_t i) const {
    const Mapped c = f_divergence(divergence_, alpha_, p.c[i]), r = f_divergence(divergence_, alpha_, p.r[i]);
    return {.c = p.c[i],
            .r = p.r[i],
            .fc = c.value,
            .fr = r.value,
            .fc_slope = c.slope,
            .fr_slope = r.slope,
            .c_tokens = std::max(1.0, a.answer(2 * i).count()),
            .r_tokens = std::max(1.0, a.answer(2 * i + 1).count())};
  }

  static void add_examples(double weight, const Answers& a, const Pairs& p, Verdict& v) {
    std::vector<Answers::Range> chosen;
    double sum = 0;
    for (std::size_t i = 0; i < a.count(); ++i) {
      chosen.push_back(a.answer(2 * i));
      sum += p.weights[i];
    }
    add_cross_entropy(v, a, chosen, weight * sum / static_cast<double>(a.count()));
  }

  static void add_statistics(Verdict& v, const Answers& a) {
    const AnswerStatistics s(a, [](std::size_t sequence) { return sequence % 2 == 0; });
    v.columns.insert(v.columns.end(), {s.entropy(), s.logits(0), s.logits(1), s.accuracy(0)});
    v.counts.insert(v.counts.end(), {s.tokens(), s.count[0], s.count[1], s.count[0]});
  }

  std::vector<DpoLoss> losses_;
  Values weights_;
  PairLossOptions options_;
  double tail_;
  FDivergence divergence_;
  double alpha_;
  bool weighting_;
};

void check_smoothing(const ObjectiveConfig& c, std::span<const DpoLoss> losses, const Refuse& refuse) {
  using enum DpoLoss;
  const auto uses = [&](DpoLoss loss) { return std::ranges::count(losses, loss) > 0; };
  const double smoothing = c.label_smoothing.value_or(0);
  if (uses(exo_pair) && (smoothing <= 0 || smoothing >= 1))
    refuse("objective.label_smoothing: exo_pair needs one above 0 and below 1, such as 0.001");
  if (uses(robust) && smoothing >= 0.5)
    refuse(str("objective.label_smoothing: robust needs one below 0.5, it is ", smoothing));
  if (smoothing > 0 && !uses(robust) && !uses(exo_pair) && !uses(aot) && !uses(aot_unpaired))
    refuse(
        "objective.label_smoothing: has no effect without robust, exo_pair, aot or aot_unpaired in "
        "objective.loss_type");
}

// Returns true if a loss is a function of the divergence of a pair's answers.
bool has_divergence(DpoLoss loss) {
  using enum DpoLoss;
  return loss == sigmoid || loss == sigmoid_norm || loss == hinge || loss == ipo || loss == exo_pair ||
         loss == robust || loss == discopop || loss == sft;
}

void check_dpo(const ObjectiveConfig& c, const Refuse& refuse) {
  using enum DpoLoss;
  const std::vector<DpoLoss> losses = losses_of<DpoLoss>(c);
  if (!c.loss_weights.empty() && c.loss_weights.size() != losses.size())
    refuse(str("objective.loss_weights: ", c.loss_weights.size(), " of them for ", losses.size(),
               " objective.loss_type; give one for each"));
  check_scale(c, refuse);
  check_smoothing(c, losses, refuse);
  const FDivergence f = c.f_divergence_type.value_or(FDivergence::reverse_kl);
  for (const DpoLoss loss : losses)
    if (f != FDivergence::reverse_kl && !has_divergence(loss))
      refuse(str("objective.f_divergence_type: ", name_of(f), " is not for objective.loss_type ",
                 name_of(loss)));
  if (c.f_alpha_divergence_coef && f != FDivergence::alpha_divergence)
    refuse(
        "objective.f_alpha_divergence_coef: has no effect without objective.f_divergence_type="
        "alpha_divergence");
  if (c.discopop_tau && std::ranges::count(losses, discopop) == 0)
    refuse("objective.discopop_tau: has no effect without discopop in objective.loss_type");
  if (c.use_weighting.value_or(false) &&
      std::ranges::any_of(losses, [](DpoLoss l) { return l == aot || l == aot_unpaired; }))
    refuse("objective.use_weighting: aot and aot_unpaired sort a batch, so that no pair has a loss to weigh");
}

ObjectiveNeeds needs_of_dpo(const ObjectiveConfig& c) {
  return {.reference = true, .precomputed = c.precompute_ref_log_probs.value_or(false)};
}

std::unique_ptr<Judge> make_dpo(const ObjectiveConfig& c) { return std::make_unique<Dpo>(c); }

}  // namespace

const ObjectiveKind objectives::kDpo{
    .name = "dpo",
    .rate = {1e-6, 1e-6, &schedules::kLinear},
    .rows = ObjectiveRows::pairs,
    .settings = settings_of<LossSettings, LossWeights, BetaSetting, LabelSmoothingSetting, DpoSettings,
                            ReferenceSetting>,
    .losses = loss_words<DpoLoss>,
    .adds_losses = true,
    .check = check_dpo,
    .needs = needs_of_dpo,
    .judge = make_dpo};

}  // namespace ft
