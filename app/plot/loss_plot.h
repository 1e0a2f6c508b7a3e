// loss.svg: the loss of a run as a picture for any browser, dark or light. Shows the raw loss in a pale
// colour, its moving average in a strong one, the held-out loss as dots, the learning rate in a panel below,
// and rewards if there are any. The file has a few KB, however long the run: a pixel column shows only its
// lowest and highest value.
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
  std::vector<LossPoint> points;  // in ascending steps
  std::vector<EvalRow> evaluations;
  RewardCurves rewards;
  std::optional<double> last;        // loss of the log's last row; empty: of the last point
  std::int64_t steps_per_epoch = 0;  // 0: epochs are not marked
};

// Returns the mean of the `window` points around each point. Near the ends takes fewer, as many on either
// side, so that a rising or falling curve is not shifted.
std::vector<double> moving_average(const std::vector<LossPoint>& points, double window);

// Returns the picture; empty if no point is finite.
std::string loss_svg(const LossCurve& curve);

// Draws the loss when the run ends.
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
