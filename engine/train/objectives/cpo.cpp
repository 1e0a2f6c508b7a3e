// Contrastive preference optimization (Xu et al. 2024), SimPO (Meng et al. 2024) and AlphaPO (Gupta et al.
// 2025), as in TRL's CPOTrainer. They need no reference.
#include "engine/core/error.h"
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/pair_losses.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

enum class CpoLoss : std::uint8_t { sigmoid, hinge, ipo, simpo, alphapo };
constexpr auto words(CpoLoss) {
  using enum CpoLoss;
  return to_words<CpoLoss>(
      {{sigmoid, "sigmoid"}, {hinge, "hinge"}, {ipo, "ipo"}, {simpo, "simpo"}, {alphapo, "alphapo"}});
}

CpoLoss loss_of_cpo(const ObjectiveConfig& c) { return losses_of<CpoLoss>(c)[0]; }

class Cpo : public Judge {
 public:
  // examples: weight of the chosen answers' cross-entropy if cpo_alpha is not set.
  Cpo(const ObjectiveConfig& c, CpoLoss loss, double examples)
      : beta_(c.beta.value_or(0.1)),
        smoothing_(c.label_smoothing.value_or(0)),
        alpha_(c.alpha.value_or(0)),
        examples_(c.cpo_alpha.value_or(examples)),
        loss_(loss == CpoLoss::alphapo ? CpoLoss::simpo : loss) {
    if (loss_ == CpoLoss::simpo) margin_ = c.simpo_gamma.value_or(0.5) / beta_;
  }

  std::vector<std::string> columns() const override {
    std::vector<std::string> all = kPairColumns;
    all.emplace_back("nll_loss");
    return all;
  }

  bool counts_columns() const override { return true; }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    std::vector<double> chosen, rejected, chosen_logps, rejected_logps;
    std::vector<Answers::Range> examples;
    for (std::size_t i = 0; i < a.count(); ++i) {
      const Answers::Range c = a.answer(2 * i), r = a.answer(2 * i + 1);
      const double nc = tokens(c), nr = tokens(r);
      chosen_logps.push_back(a.sum(c) / nc);
      rejected_logps.push_back(a.sum(r) / nr);
      const Mapped sc = shaped(chosen_logps.back()), sr = shaped(rejected_logps.back());
      const Mapped m = loss_of(sc.value - sr.value - margin_);
      v.loss += m.value;
      v.add_slope(c, m.slope * sc.slope / nc);
      v.add_slope(r, -m.slope * sr.slope / nr);
      chosen.push_back(sc.value);
      rejected.push_back(sr.value);
      examples.push_back(c);
    }
    const double nll = examples_ > 0 ? add_cross_entropy(v, a, examples, examples_) : 0;
    add_pair_columns(v, beta_, chosen, rejected, chosen_logps, rejected_logps);
    v.columns.push_back(nll);
    v.counts.push_back(1);  // once for a micro-batch, as in TRL
    return v;
  }

 private:
  // Returns the divisor of an answer's log-probability.
  double tokens(const Answers::Range& r) const {
    const bool mean = loss_ == CpoLoss::ipo || loss_ == CpoLoss::simpo;
    return mean ? std::max(1.0, r.count()) : 1;
  }
  Mapped shaped(double logp) const {
    if (alpha_ == 0) return {logp, 1};
    const double power = std::exp(-alpha_ * logp);
    return {(1 - power) / alpha_, power};
  }
  Mapped loss_of(double d) const {
    const double z = beta_ * d, off = d - 1 / (2 * beta_);
    if (loss_ == CpoLoss::hinge) return {std::max(0.0, 1 - z), z < 1 ? -beta_ : 0};
    if (loss_ == CpoLoss::ipo) return {off * off, 2 * off};
    return smoothed_loss(d, {beta_, smoothing_, 0});
  }

  double beta_, smoothing_, alpha_, examples_, margin_ = 0;
  CpoLoss loss_;
};

void check_cpo(const ObjectiveConfig& c, const Refuse& refuse) {
  using enum CpoLoss;
  check_scale(c, refuse);
  const CpoLoss loss = loss_of_cpo(c);
  if (c.simpo_gamma && loss != simpo && loss != alphapo)
    refuse("objective.simpo_gamma: has no effect without objective.loss_type simpo or alphapo");
  if (c.label_smoothing.value_or(0) > 0 && (loss == hinge || loss == ipo))
    refuse(str("objective.label_smoothing: has no effect with objective.loss_type ", name_of(loss)));
  if (loss == alphapo && c.cpo_alpha.value_or(0) > 0)
    refuse("objective.cpo_alpha: alphapo has no cross-entropy; set it to 0 or leave it out");
}

std::unique_ptr<Judge> make_cpo(const ObjectiveConfig& c) {
  const CpoLoss loss = loss_of_cpo(c);
  return std::make_unique<Cpo>(c, loss, loss == CpoLoss::alphapo ? 0 : 1);
}

std::unique_ptr<Judge> make_simpo(const ObjectiveConfig& c) {
  return std::make_unique<Cpo>(c, CpoLoss::simpo, 0);
}

}  // namespace

const ObjectiveKind objectives::kCpo{.name = "cpo",
                                     .rate = {1e-6, 1e-6, &schedules::kLinear},
                                     .rows = ObjectiveRows::pairs,
                                     .settings = settings_of<LossSettings, BetaSetting, LabelSmoothingSetting,
                                                             CpoSettings, AlphaSetting, SimpoSettings>,
                                     .losses = loss_words<CpoLoss>,
                                     .check = check_cpo,
                                     .judge = make_cpo};

const ObjectiveKind objectives::kSimpo{
    .name = "simpo",
    .rate = {1e-6, 1e-6, &schedules::kLinear},
    .rows = ObjectiveRows::pairs,
    .settings = settings_of<BetaSetting, LabelSmoothingSetting, AlphaSetting, SimpoSettings>,
    .check = [](const ObjectiveConfig& c, const Refuse& refuse) { check_scale(c, refuse); },
    .judge = make_simpo};

}  // namespace ft
