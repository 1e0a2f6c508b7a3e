// The mathematics of an objective that compares answers: what a batch's answers cost, and how that changes
// with each target's value. On the host and in double precision; a model is not seen.
#pragma once
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/batch.h"
#include "engine/train/objectives/config.h"

namespace ft {

// A batch's targets as a model sees them, by sequence: see Compared. A "log p" is that of a target, whose
// value is -log p; of a reward model values are scores.
struct Answers {
  struct Range {
    std::size_t begin, end;
    double count() const { return static_cast<double>(end - begin); }
  };
  const Compared& rows;
  std::span<const double> values;     // (targets)
  std::span<const float> statistics;  // (targets, LogitStatistics::kCount), where they were asked for
  std::span<const double> reference;  // what Judge::reference made of the reference's, where there is one
  double kl = 0;                      // KTO's
  std::span<const double> old = {};   // (targets) of rollouts: log p as they were given

  std::size_t sequences() const { return rows.first_answer.size(); }
  std::size_t count() const { return rows.value.size(); }  // rows
  Range answer(std::size_t s) const { return {at(rows.first_answer[s]), at(rows.first_target[s + 1])}; }
  Range prompt_and_answer(std::size_t s) const {
    return {at(rows.first_target[s]), at(rows.first_target[s + 1])};
  }
  double logp(std::size_t target) const { return -values[target]; }
  double sum(Range r) const {
    double all = 0;
    for (std::size_t t = r.begin; t < r.end; ++t) all += logp(t);
    return all;
  }
  double statistic(std::size_t target, std::size_t which) const {
    return static_cast<double>(statistics[target * 4 + which]);
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
};

// What a judge makes of a batch.
struct Verdict {
  explicit Verdict(const Answers& a) : slopes(a.values.size()) {}

  double loss = 0;              // of all rows, added up
  std::vector<double> slopes;   // (targets) d loss / d log p, or d score
  std::vector<double> columns;  // as Judge::columns names them; NaN: this batch has none
  std::vector<double> counts;   // of how many rows or tokens each is the mean, see Judge::counts_columns

  void add_slope(Answers::Range r, double slope) {
    for (std::size_t t = r.begin; t < r.end; ++t) slopes[t] += slope;
  }
};

class Judge {
 public:
  virtual ~Judge() = default;
  virtual std::vector<std::string> columns() const = 0;
  virtual bool needs_reference() const { return false; }
  virtual bool needs_statistics() const { return false; }
  virtual bool needs_kl() const { return false; }
  virtual bool needs_old() const { return false; }
  // Whether a step's losses are divided by its targets, not by its rows.
  virtual bool counts_targets() const { return false; }
  virtual double temperature() const { return 1; }  // what logits are divided by
  // Columns that are the least, or the most, of a micro-batch's rows: of all ranks' together.
  struct Extremes {
    std::vector<std::size_t> least, most;
  };
  virtual Extremes extremes() const { return {}; }
  // Whether columns are means over the rows, or the tokens, of all ranks' micro-batches together; and what
  // then follows from those.
  virtual bool counts_columns() const { return false; }
  virtual void complete(std::vector<double>& /*columns*/) const {}
  // What stands for a sequence's log-probability, of policy and reference.
  virtual double logp(const Answers& a, std::size_t s) const { return a.sum(a.answer(s)); }
  // What is compared with the reference: of every sequence its log-probability.
  virtual std::vector<double> reference(const Answers& a) const {
    std::vector<double> all;
    for (std::size_t s = 0; s < a.sequences(); ++s) all.push_back(logp(a, s));
    return all;
  }
  // `Answers` has at least one row.
  virtual Verdict judge(const Answers&) const = 0;
};

std::unique_ptr<Judge> make_dpo(const ObjectiveConfig&);
std::unique_ptr<Judge> make_kto(const ObjectiveConfig&);
std::unique_ptr<Judge> make_orpo(const ObjectiveConfig&);
std::unique_ptr<Judge> make_cpo(const ObjectiveConfig&);  // and simpo
std::unique_ptr<Judge> make_reward(const ObjectiveConfig&);
std::unique_ptr<Judge> make_grpo(const ObjectiveConfig&);
std::unique_ptr<Judge> make_ppo(const ObjectiveConfig&);
std::unique_ptr<Judge> make_critic(const ObjectiveConfig&);  // of ppo's values

inline double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
inline double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

// Rewards of pairs, as TRL names them: chosen, rejected, margins, accuracies.
inline const std::vector<std::string> kPairColumns{"rewards/chosen",  "rewards/rejected",
                                                   "rewards/margins", "rewards/accuracies",
                                                   "logps/chosen",    "logps/rejected"};

// Adds kPairColumns, with their counts: of the pairs' rewards (beta times these) and log-probabilities.
void add_pair_columns(Verdict&, double beta, std::span<const double> chosen, std::span<const double> rejected,
                      std::span<const double> chosen_logps, std::span<const double> rejected_logps);

// Sums of LogitStatistics over the answers that are chosen, and over the others.
struct AnswerStatistics {
  AnswerStatistics(const Answers&, const std::function<bool(std::size_t sequence)>& chosen);
  double entropy() const { return per(entropy_[0] + entropy_[1], tokens()); }
  double tokens() const { return count[0] + count[1]; }
  double logits(int which) const { return per(logits_[which], count[which]); }
  double accuracy(int which) const { return per(right_[which], count[which]); }

  double count[2] = {};  // tokens of those, and of the others

 private:
  static double per(double sum, double n) { return n > 0 ? sum / n : 0; }
  double entropy_[2] = {}, logits_[2] = {}, right_[2] = {};
};

// The mean cross-entropy of these targets over the batch's rows, `weight` times; with its slopes. Returns it.
double add_cross_entropy(Verdict&, const Answers&, std::span<const Answers::Range>, double weight);

}  // namespace ft
