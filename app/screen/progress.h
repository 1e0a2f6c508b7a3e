// Shows a training run to people: lines at the start; during the run a live line on a terminal, or a plain
// line at every logging step elsewhere; above the live line the loss curve, if asked for, evaluations and
// checkpoints; at the end the results and the next commands to type.
#pragma once
#include <atomic>
#include <optional>

#include "app/screen/run_text.h"
#include "app/screen/screen.h"
#include "app/screen/ticker.h"
#include "engine/train/config.h"
#include "engine/train/reports/report.h"

namespace ft {

class Progress final : public Report {
 public:
  Progress(Screen& screen, const LoggingConfig& config);

  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void progress(const StepRow& row) override;
  void micro_step(std::int64_t micro_batch, std::int64_t of) override;
  void answering(std::int64_t done, std::int64_t of) override;
  void evaluating(std::int64_t done, std::int64_t of) override;
  void evaluation(const EvalRow& row) override;
  void saved(const SavedRow& row) override;
  void note(const std::string& text) override;
  void warning(const std::string& text) override;
  void end(const Summary& summary) override;

 private:
  using Clock = std::chrono::steady_clock;
  void labelled(const std::vector<LabelledLine>& lines);
  void draw();
  std::string curve(int width) const;  // "": there is none
  void print();
  StepView view() const { return {header_, row_, seconds_left(), micro_batch_, micro_batches_}; }
  double seconds_left() const;  // negative: unknown
  double seconds_in_step() const { return std::chrono::duration<double>(Clock::now() - last_step_).count(); }

  Screen& screen_;
  bool silent_, warns_, draws_curve_;
  std::vector<double> losses_;  // losses of all steps, for the curve
  std::optional<std::int64_t> steps_per_print_;
  RunHeader header_;
  StepRow row_;
  Course course_;
  std::int64_t timed_steps_ = 0;
  double step_seconds_ = 0;  // mean time of the last steps, with evaluations and checkpoints
  Clock::time_point last_step_{};
  // State of the current step. The ticker reads it, and draws the live line until the first step has ended.
  std::atomic<std::int64_t> micro_batch_ = 0, micro_batches_ = 0;
  std::optional<Ticker> first_step_;
};

}  // namespace ft
