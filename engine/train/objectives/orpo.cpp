// Odds ratio preference optimization (Hong et al. 2024), as in TRL's ORPOTrainer: the cross-entropy of the
// chosen answers, and the odds of both answers. It needs no reference.
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

class Orpo : public Judge {
 public:
  explicit Orpo(const ObjectiveConfig& c) : beta_(c.beta.value_or(0.1)) {}

  std::vector<std::string> columns() const override {
    std::vector<std::string> all = kPairColumns;
    for (const char* name : {"nll_loss", "log_odds_ratio", "log_odds_chosen"}) all.emplace_back(name);
    return all;
  }

  bool counts_columns() const override { return true; }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    std::vector<double> chosen, rejected;
    std::vector<Answers::Range> examples;
    double ratio = 0, odds = 0;
    for (std::size_t i = 0; i < a.count(); ++i) {
      const Answers::Range c = a.answer(2 * i), r = a.answer(2 * i + 1);
      const double nc = std::max(1.0, c.count()), nr = std::max(1.0, r.count());
      const double lc = a.sum(c) / nc, lr = a.sum(r) / nr;
      // The slope of the log odds log(p / (1 - p)) by log p is 1 / (1 - p), where p is the mean probability
      // of a token.
      const double o = (lc - lr) - (std::log1p(-std::exp(lc)) - std::log1p(-std::exp(lr)));
      const double slope = -beta_ * sigmoid(-o);
      v.loss -= beta_ * log_sigmoid(o);
      v.add_slope(c, slope / (1 - std::exp(lc)) / nc);
      v.add_slope(r, -slope / (1 - std::exp(lr)) / nr);
      chosen.push_back(lc);
      rejected.push_back(lr);
      examples.push_back(a.prompt_and_answer(2 * i));
      ratio += log_sigmoid(o);
      odds += o;
    }
    const double nll = add_cross_entropy(v, a, examples, 1), rows = static_cast<double>(a.count());
    add_pair_columns(v, beta_, chosen, rejected, chosen, rejected);
    v.columns.insert(v.columns.end(), {nll, ratio / rows, odds / rows});
    v.counts.insert(v.counts.end(), {1, rows, rows});  // nll is counted once for a micro-batch, as in TRL
    return v;
  }

 private:
  double beta_;
};

std::unique_ptr<Judge> make_orpo(const ObjectiveConfig& c) { return std::make_unique<Orpo>(c); }

}  // namespace

const ObjectiveKind objectives::kOrpo{
    .name = "orpo",
    .rate = {1e-6, 1e-6, &schedules::kLinear},
    .rows = ObjectiveRows::pairs,
    .learns_prompts = true,
    .encoder_decoder = true,
    .settings = settings_of<BetaSetting>,
    .check = [](const ObjectiveConfig& c, const Refuse& refuse) { check_scale(c, refuse); },
    .judge = make_orpo};

}  // namespace ft
