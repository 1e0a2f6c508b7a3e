// The panel below the losses of a run with compared or rewarded answers: moving averages of its rewards.
#pragma once
#include <string>
#include <vector>

#include "app/plot/svg.h"
#include "engine/train/reports/report.h"

namespace ft {

struct RewardCurve {
  std::string column, name;  // e.g. rewards/chosen and chosen
  std::vector<svg::Point> points;
};

// The reward curves of a run; empty if its rows have no such columns.
class RewardCurves {
 public:
  void add(std::int64_t step, const Measures& columns);
  const std::vector<RewardCurve>& all() const { return all_; }

 private:
  std::vector<RewardCurve> all_;
};

// The panel's height, and the CSS of its elements.
inline constexpr double kRewardHeight = 170;
extern const char* const kRewardStyle;
// Draws the panel at the height `top`, over the steps of `x`.
std::string reward_panel(const std::vector<RewardCurve>&, const svg::Scale& x, double top);

}  // namespace ft
