// Below the losses of a run whose answers are compared or rewarded: what its rewards were. Moving averages.
#pragma once
#include <string>
#include <vector>

#include "app/plot/svg.h"
#include "engine/train/reports/report.h"

namespace ft {

struct RewardCurve {
  std::string column, name;  // rewards/chosen: chosen
  std::vector<svg::Point> points;
};

// The curves of a run; none where its rows have no such columns.
class RewardCurves {
 public:
  void add(std::int64_t step, const Measures& columns);
  const std::vector<RewardCurve>& all() const { return all_; }

 private:
  std::vector<RewardCurve> all_;
};

// A page's further height, and the style of what is drawn in it.
inline constexpr double kRewardHeight = 170;
extern const char* const kRewardStyle;
// From `top` on, on the steps of `x`.
std::string reward_panel(const std::vector<RewardCurve>&, const svg::Scale& x, double top);

}  // namespace ft
