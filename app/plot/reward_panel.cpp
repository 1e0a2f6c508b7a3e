#include "app/plot/reward_panel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "app/plot/loss_plot.h"
#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

// Columns that are shown: of pairs and labelled answers, of reward models, and of answers that a program
// rewards.
constexpr std::pair<const char*, const char*> kShown[] = {
    {"rewards/chosen", "chosen"},  {"rewards/rejected", "rejected"},
    {"rewards/margins", "margin"}, {"mean_reward", "mean"},
    {"margin", "margin"},          {"reward", "reward"}};
constexpr double kAbove = 34, kBelow = 22;  // above: the title; below: the ticks of steps
constexpr std::size_t kColumns = 160;       // more are not visible

std::vector<svg::Point> averaged(const std::vector<svg::Point>& points) {
  std::vector<LossPoint> values;
  for (const svg::Point& p : points) values.push_back({static_cast<std::int64_t>(p.x), p.y, 0});
  const auto mean = moving_average(values, std::clamp(static_cast<double>(points.size()) / 12, 5.0, 500.0));
  std::vector<svg::Point> out;
  const std::size_t every = (points.size() + kColumns - 1) / kColumns;
  for (std::size_t i = (points.size() - 1) % every; i < points.size(); i += every)
    out.push_back({points[i].x, mean[i]});
  return out;
}

}  // namespace

const char* const kRewardStyle = R"(<style>
.w0,.w1,.w2{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}
.w0{stroke:#1a7f37}.w1{stroke:#d4480b}.w2{stroke:#2463d6}.x0{fill:#1a7f37}.x1{fill:#d4480b}.x2{fill:#2463d6}
@media (prefers-color-scheme:dark){.w0{stroke:#5bd17a}.w1{stroke:#ff9950}.w2{stroke:#74a9ff}
.x0{fill:#5bd17a}.x1{fill:#ff9950}.x2{fill:#74a9ff}}
</style>
)";

void RewardCurves::add(std::int64_t step, const Measures& columns) {
  for (const auto& [column, value] : columns) {
    const auto shown = std::find_if(std::begin(kShown), std::end(kShown),
                                    [&](const auto& one) { return column == one.first; });
    if (shown == std::end(kShown) || !std::isfinite(value)) continue;
    auto curve = std::find_if(all_.begin(), all_.end(), [&](const auto& c) { return c.column == column; });
    if (curve == all_.end()) {
      all_.push_back({column, shown->second, {}});
      curve = all_.end() - 1;
    }
    curve->points.push_back({static_cast<double>(step), value});
  }
}

std::string reward_panel(const std::vector<RewardCurve>& curves, const svg::Scale& x, double top) {
  std::vector<std::vector<svg::Point>> means;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const RewardCurve& c : curves) {
    means.push_back(averaged(c.points));
    for (const svg::Point& p : means.back()) {
      low = std::min(low, p.y);
      high = std::max(high, p.y);
    }
  }
  const double margin = std::max(0.08 * (high - low), 1e-6 + 1e-3 * std::abs(high));
  const svg::Scale y{low - margin, high + margin, top + kRewardHeight - kBelow, top + kAbove};
  std::string out = svg::text(x.at_from, top + 16, "rewards");
  const auto ticks = svg::ticks(y.from, y.to, 4);
  for (const double v : ticks)
    out += svg::line("g", x.at_from, y(v), x.at_to, y(v)) +
           svg::text(x.at_from - 8, y(v) + 4, show::digits(v), "end");
  out += svg::line("f", x.at_from, y.at_from, x.at_to, y.at_from);
  double at = x.at_to;
  for (std::size_t i = curves.size(); i-- > 0;) {
    std::vector<svg::Point> placed;
    for (const svg::Point& p : means[i]) placed.push_back({x(p.x), y(p.y)});
    const std::string kind = std::to_string(i % 3);
    out += svg::curve(("w" + kind).c_str(), placed) +
           svg::text(at, top + 16, curves[i].name + " " + show::digits(means[i].back().y), "end",
                     ("v x" + kind).c_str());
    at -= 130;
  }
  return out;
}

}  // namespace ft
