// Contrastive preference optimization (Xu et al. 2024), SimPO (Meng et al. 2024) and AlphaPO (Gupta et al.
// 2025), as in TRL's CPOTrainer. They need no reference.
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/pair_losses.h"

namespace ft {
namespace {

class Cpo : public Judge {
 public:
  explicit Cpo(const ObjectiveConfig& c)
      : beta_(c.beta.value_or(0.1)), smoothing_(c.label_smoothing.value_or(0)), alpha_(c.alpha.value_or(0)) {
    const bool simpo = c.type == ObjectiveType::simpo;
    loss_ = simpo ? LossType::simpo : c.loss_type.empty() ? LossType::sigmoid : c.loss_type[0];
    examples_ = c.cpo_alpha.value_or(simpo || loss_ == LossType::alphapo ? 0 : 1);
    if (loss_ == LossType::alphapo) loss_ = LossType::simpo;
    if (loss_ == LossType::simpo) margin_ = c.simpo_gamma.value_or(0.5) / beta_;
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
    const bool mean = loss_ == LossType::ipo || loss_ == LossType::simpo;
    return mean ? std::max(1.0, r.count()) : 1;
  }
  Mapped shaped(double logp) const {
    if (alpha_ == 0) return {logp, 1};
    const double power = std::exp(-alpha_ * logp);
    return {(1 - power) / alpha_, power};
  }
  Mapped loss_of(double d) const {
    const double z = beta_ * d, off = d - 1 / (2 * beta_);
    if (loss_ == LossType::hinge) return {std::max(0.0, 1 - z), z < 1 ? -beta_ : 0};
    if (loss_ == LossType::ipo) return {off * off, 2 * off};
    return smoothed_loss(d, {beta_, smoothing_, 0});
  }

  double beta_, smoothing_, alpha_, examples_ = 0, margin_ = 0;
  LossType loss_ = LossType::sigmoid;
};

}  // namespace

std::unique_ptr<Judge> make_cpo(const ObjectiveConfig& c) { return std::make_unique<Cpo>(c); }

}  // namespace ft
