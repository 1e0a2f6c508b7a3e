// The mathematics of an objective that compares answers: the loss of a batch's answers, and its derivative by
// each target's value. It is computed on the host in double precision, without a model.
#pragma once
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/batch.h"

namespace ft {

// A batch's targets with a model's values, by sequence: see Compared. A target's value is -log p, or a score
// of a reward model.
struct Answers {
  struct Range {
    std::size_t begin, end;
    double count() const { return static_cast<double>(end - begin); }
  };
  const Compared& rows;
  std::span<const double> values;     // by target
  std::span<const float> statistics;  // (targets, LogitStatistics::kCount), if needed
  std::span<const double> reference;  // results of Judge::reference for the reference model; empty: none
  double kl = 0;                      // for KTO
  std::span<const double> old = {};   // by target, for rollouts: log p when the answer was generated

  std::size_t sequences() const { return rows.first_answer.size(); }
  std::size_t count() const { return rows.value.size(); }  // number of rows
  Range answer(std::size_t s) const { return {at(rows.first_answer[s]), at(rows.first_target[s + 1])}; }
  Range prompt_and_answer(std::size_t s) const {
    return {at(rows.first_target[s]), at(rows.first_target[s + 1])};
  }
  double logp(std::size_t target) const { return -values[target]; }
  // Returns the importance weight of a target's loss.
  double weight(std::size_t target) const {
    return rows.weights.empty() ? 1 : static_cast<double>(rows.weights[target]);
  }
  std::vector<double> logps() const {  // of all targets
    std::vector<double> all;
    for (std::size_t t = 0; t < values.size(); ++t) all.push_back(logp(t));
    return all;
  }
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

// Result of a judge for a batch.
struct Verdict {
  explicit Verdict(const Answers& a) : slopes(a.values.size()) {}

  double loss = 0;              // sum over all rows
  std::vector<double> slopes;   // by target: d loss / d log p, or d loss / d score
  std::vector<double> columns;  // named by Judge::columns; NaN: this batch has none
  std::vector<double> counts;   // number of rows or tokens in each column's mean, see Judge::counts_columns

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
  // Returns true if a step's loss is divided by its targets, not by its rows.
  virtual bool counts_targets() const { return false; }
  virtual double temperature() const { return 1; }  // divisor of the logits
  // Columns that are the minimum, or the maximum, over the rows of all ranks' micro-batches.
  struct Extremes {
    std::vector<std::size_t> least, most;
  };
  virtual Extremes extremes() const { return {}; }
  // counts_columns: columns are means over the rows, or the tokens, of all ranks' micro-batches together.
  // complete() then computes the columns that follow from these means.
  virtual bool counts_columns() const { return false; }
  virtual void complete(std::vector<double>& /*columns*/) const {}
  // Returns the number used as a sequence's log-probability, for policy and reference.
  virtual double logp(const Answers& a, std::size_t s) const { return a.sum(a.answer(s)); }
  // Returns the reference's numbers that judge() needs; by default the log-probability of each sequence.
  virtual std::vector<double> reference(const Answers& a) const {
    std::vector<double> all;
    for (std::size_t s = 0; s < a.sequences(); ++s) all.push_back(logp(a, s));
    return all;
  }
  // Requires at least one row.
  virtual Verdict judge(const Answers&) const = 0;
};

inline double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
inline double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

// Columns of pairs, with TRL's names.
inline const std::vector<std::string> kPairColumns{"rewards/chosen",  "rewards/rejected",
                                                   "rewards/margins", "rewards/accuracies",
                                                   "logps/chosen",    "logps/rejected"};

// Adds kPairColumns with their counts: rewards (beta times the given differences) and log-probabilities of
// the pairs.
void add_pair_columns(Verdict&, double beta, std::span<const double> chosen, std::span<const double> rejected,
                      std::span<const double> chosen_logps, std::span<const double> rejected_logps);

// Sums of LogitStatistics over the chosen answers [0], and over the others [1].
struct AnswerStatistics {
  AnswerStatistics(const Answers&, const std::function<bool(std::size_t sequence)>& chosen);
  double entropy() const { return per(entropy_[0] + entropy_[1], tokens()); }
  double tokens() const { return count[0] + count[1]; }
  double logits(int which) const { return per(logits_[which], count[which]); }
  double accuracy(int which) const { return per(right_[which], count[which]); }

  double count[2] = {};  // tokens of the chosen answers, and of the others

 private:
  static double per(double sum, double n) { return n > 0 ? sum / n : 0; }
  double entropy_[2] = {}, logits_[2] = {}, right_[2] = {};
};

// Adds `weight` times the mean cross-entropy of these targets over the batch's rows, with its slopes. Returns
// the mean.
double add_cross_entropy(Verdict&, const Answers&, std::span<const Answers::Range>, double weight);

}  // namespace ft
