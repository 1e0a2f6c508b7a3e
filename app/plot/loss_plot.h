// loss.svg: the course of the loss as one picture that any browser opens, dark or light. Raw loss pale, its
// moving average strong, held-out loss as dots, the learning rate in a strip below, then rewards where there
// are such. A few KB however long the run was: all values in one pixel column are drawn as the lowest and the
// highest.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/plot/reward_panel.h"
#include "engine/train/reports/report.h"

namespace ft {

struct LossPoint {
  std::int64_t step;
  double loss, learning_rate;
};

struct LossCurve {
  std::string title, subtitle;
  std::vector<LossPoint> points;  // steps ascending
  std::vector<EvalRow> evaluations;
  RewardCurves rewards;
  std::optional<double> last;        // the last row of the log, as the screen shows it; empty: the last point
  std::int64_t steps_per_epoch = 0;  // 0: passes are not marked
};

// Mean of `window` points around each; towards the ends of fewer, as many on both sides, so that a curve that
// rises or falls is neither late nor early.
std::vector<double> moving_average(const std::vector<LossPoint>& points, double window);

// The picture; empty when there is no finite point.
std::string loss_svg(const LossCurve& curve);

// Draws the run when it ends.
class LossPlot final : public Report {
 public:
  explicit LossPlot(std::string path) : path_(std::move(path)) {}

  void begin(const RunHeader& header) override;
  void progress(const StepRow& row) override;
  void step(const StepRow& row) override { curve_.last = row.loss; }
  void evaluation(const EvalRow& row) override;
  void end(const Summary& summary) override;

 private:
  std::string path_;
  LossCurve curve_;
};

}  // namespace ft
