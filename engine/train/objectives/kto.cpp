// Kahneman-Tversky optimization (Ethayarajh et al. 2024), as in TRL's KTOTrainer: each answer is labelled as
// desired or not.
#include <limits>

#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

enum class KtoLoss : std::uint8_t { kto, apo_zero_unpaired };
constexpr auto words(KtoLoss) {
  using enum KtoLoss;
  return to_words<KtoLoss>({{kto, "kto"}, {apo_zero_unpaired, "apo_zero_unpaired"}});
}

bool is_unpaired(const LossSettings& c) { return losses_of<KtoLoss>(c)[0] == KtoLoss::apo_zero_unpaired; }

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Kto : public Judge {
 public:
  explicit Kto(const ObjectiveConfig& c)
      : beta_(c.beta.value_or(0.1)),
        weights_{c.undesirable_weight.value_or(1), c.desirable_weight.value_or(1)},
        unpaired_(is_unpaired(c)) {}

  std::vector<std::string> columns() const override {
    return {
        "kl",      "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected",
        "entropy", "logits/chosen",  "logits/rejected"};
  }
  bool needs_reference() const override { return true; }
  bool needs_statistics() const override { return true; }
  bool needs_kl() const override { return !unpaired_; }
  bool counts_columns() const override { return true; }
  void complete(std::vector<double>& columns) const override { columns[3] = columns[1] - columns[2]; }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    double ratios[2] = {}, logps[2] = {}, rows[2] = {};  // undesired, desired
    for (std::size_t s = 0; s < a.count(); ++s) {
      const bool desired = a.rows.value[s] > 0;
      const double lp = logp(a, s), x = lp - a.reference[s];
      // The loss is 1 - sigmoid(beta (x - kl)) for desired answers; for the others the argument has the other
      // sign.
      const double sign = desired ? 1 : -1, p = sigmoid(sign * beta_ * (x - a.kl));
      const double weight = unpaired_ ? 1 : weights_[desired];
      v.loss += weight * (1 - p);
      v.add_slope(a.answer(s), -sign * weight * beta_ * p * (1 - p));
      ratios[desired] += x;
      logps[desired] += lp;
      rows[desired] += 1;
    }
    const auto mean = [&](const double* sums, int which) {
      return rows[which] > 0 ? sums[which] / rows[which] : kNone;
    };
    const AnswerStatistics all(a, [&](std::size_t s) { return a.rows.value[s] > 0; });
    const auto logits = [&](int which) { return all.count[which] > 0 ? all.logits(which) : kNone; };
    v.columns = {a.kl,           beta_ * mean(ratios, 1), beta_ * mean(ratios, 0), kNone,
                 mean(logps, 1), mean(logps, 0),          all.entropy(),           logits(0),
                 logits(1)};
    v.counts = {rows[0] + rows[1], rows[1],      rows[0],      0,           rows[1],
                rows[0],           all.tokens(), all.count[0], all.count[1]};
    complete(v.columns);
    return v;
  }

 private:
  double beta_, weights_[2];
  bool unpaired_;
};

ObjectiveNeeds needs_of_kto(const ObjectiveConfig& c) { return {.reference = true, .kl = !is_unpaired(c)}; }

std::unique_ptr<Judge> make_kto(const ObjectiveConfig& c) { return std::make_unique<Kto>(c); }

}  // namespace

const ObjectiveKind objectives::kKto{
    .name = "kto",
    .rate = {1e-6, 1e-6, &schedules::kLinear},
    .rows = ObjectiveRows::labelled,
    .settings = settings_of<LossSettings, BetaSetting, ReferenceSetting, KtoSettings>,
    .losses = loss_words<KtoLoss>,
    .check = [](const ObjectiveConfig& c, const Refuse& refuse) { check_scale(c, refuse); },
    .needs = needs_of_kto,
    .judge = make_kto};

}  // namespace ft
