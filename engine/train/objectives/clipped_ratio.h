// Judges with PPO's loss without a critic: -min(ratio A, clamp(ratio) A), where the ratio is of probabilities
// of the policy now and when it gave the answers, and A is an advantage.
#pragma once
#include <string>
#include <vector>

#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"

namespace ft {

class ClippedRatio : public Judge {
 public:
  explicit ClippedRatio(const ObjectiveConfig&);

  std::vector<std::string> columns() const override;
  bool needs_statistics() const override { return true; }
  bool needs_old() const override { return true; }
  bool counts_columns() const override { return true; }
  double temperature() const override { return temperature_; }
  // Returns log p of every target.
  std::vector<double> reference(const Answers& a) const override { return a.logps(); }

 protected:
  // Sums over the actions of a batch; `low` and `high` count those whose ratio is clipped.
  struct Sums {
    double low = 0, high = 0, entropy = 0;
  };
  // An action. Its ratio is exp(ahead), and its loss is multiplied by the weight.
  struct Action {
    double ahead, advantage, weight = 1;
  };
  // Adds an action's loss. Returns its derivative by the log-probability.
  double add(const Action&, Verdict&, Sums&) const;

 private:
  double low_, high_, temperature_;
};

// Throws for settings of such judges that have no effect or are out of range.
void check_clipped_ratio(const ObjectiveConfig&, const Refuse&);

}  // namespace ft
