// Worth of the answers of a generation: an objective turns their rewards into the numbers to train with.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/train/reports/report.h"

namespace ft {

// A generated answer, with numbers by token. An answer that is not trained has no tokens.
struct Trajectory {
  double score = 0;                         // reward of the answer; NaN: none
  std::vector<double> logps;                // under the policy that generated it; empty: not needed
  std::vector<double> reference;            // under the reference; empty: none
  std::vector<double> values;               // critic's prediction before each token; empty: none
  double advantage = 0;                     // of the complete answer, see Valuation::value()
  std::vector<double> advantages, returns;  // likewise, by token

  double kl() const;  // sum of log p - log p of the reference
};

class Valuation {
 public:
  virtual ~Valuation() = default;
  virtual bool needs_logps() const { return false; }  // Trajectory::logps, and reference if there is one
  virtual bool by_token() const { return false; }     // value() fills advantages and returns, not advantage
  // Returns false if an answer is not trained. ended: it ends with an end token.
  virtual bool trains(double /*score*/, bool /*ended*/) const { return true; }
  // Fills the advantages of all answers of a generation; `group` neighbours answer one prompt.
  virtual void value(std::span<Trajectory>, std::int64_t group) const = 0;
  // Names of the columns that the objective's judge does not have, and figures for columns of both.
  virtual std::vector<std::string> columns() const { return {}; }
  virtual Measures figures(std::span<const Trajectory>, std::int64_t group) const = 0;
  // Returns the loss of an evaluation; nothing: a pass over the answers computes it.
  virtual std::optional<double> loss(std::span<const Trajectory>) const { return {}; }
};

// Returns the mean over all tokens of log p - log p of the reference.
double kl_of_token(std::span<const Trajectory>);
// Returns the answers' rewards.
std::vector<double> rewards_of(std::span<const Trajectory>);

}  // namespace ft
