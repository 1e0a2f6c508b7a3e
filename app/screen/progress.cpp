#include "app/screen/progress.h"

#include <algorithm>

#include "app/screen/curve.h"
#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {

Progress::Progress(Screen& screen, const LoggingConfig& config)
    : screen_(screen),
      silent_(config.progress == ProgressStyle::none || config.log_level >= LogLevel::warning),
      warns_(config.log_level != LogLevel::error),
      draws_curve_(config.progress == ProgressStyle::full),
      steps_per_print_(config.steps_per_print) {}

void Progress::labelled(const std::vector<LabelledLine>& lines) {
  for (const auto& [label, text, whole] : lines) {
    const std::size_t gap = label.size() < kLabelWidth ? kLabelWidth - label.size() : 1;
    screen_.line(screen_.bold(label) + std::string(gap, ' ') + text, whole ? Screen::kWhole : kLabelWidth);
  }
}

void Progress::begin(const RunHeader& header) {
  header_ = header;
  row_.step = header.resumed_step;
  last_step_ = Clock::now();
  for (const StepRow& row : header.past.steps) {
    course_.loss.push_back(row.loss);
    course_.take_rewards(row.columns);
    if (draws_curve_) losses_.push_back(row.loss);
  }
  for (const EvalRow& row : header.past.evaluations) course_.add(row);
  if (silent_) return;
  screen_.line(title_line(header), kLabelWidth);
  labelled(header_lines(header));
  screen_.line("");
}

// Estimates the time of a step. The first steps weigh equally, later about the last fifty, because a
// machine's speed may change.
void Progress::progress(const StepRow& row) {
  first_step_.reset();
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - last_step_).count();
  last_step_ = now;
  ++timed_steps_;
  const double weight = std::max(1.0 / static_cast<double>(timed_steps_), 0.02);
  step_seconds_ += weight * (seconds - step_seconds_);
  row_ = row;
  micro_batch_ = micro_batches_ = 0;
  if (draws_curve_) losses_.push_back(row.loss);
  draw();
  const bool learned = course_.equally_rewarded == 0;
  course_.take_rewards(row.columns);
  if (learned && course_.equally_rewarded > 0)
    note(str("step ", show::count(row.step),
             ": all answers to a prompt got the same reward, so that nothing is learned from them"));
  if (steps_per_print_ && row.step % *steps_per_print_ == 0) print();
}

void Progress::print() {
  if (!silent_) screen_.line("step " + step_line(view(), 0, Bar::none));
}

double Progress::seconds_left() const {
  if (timed_steps_ == 0) return -1;
  return step_seconds_ * static_cast<double>(std::max<std::int64_t>(0, header_.steps - row_.step));
}

// Returns the loss curve, at most a third of the screen high, so that earlier lines stay visible.
std::string Progress::curve(int width) const {
  constexpr int kLeast = 18, kMostLines = 8, kMostColumns = 100;
  const int height = screen_.height();
  if (!draws_curve_ || height < kLeast) return "";
  std::string out;
  const int lines = std::min(height / 3, kMostLines);
  for (const std::string& line : loss_curve(losses_, std::min(width, kMostColumns), lines, screen_.utf8()))
    out += line + "\n";
  return out;
}

void Progress::draw() {
  if (silent_) return;
  screen_.live_line([this](int width) {
    return curve(width) + step_line(view(), width, screen_.utf8() ? Bar::utf8 : Bar::ascii);
  });
}

// Prints one line about the first step to a log, if the step takes long.
void Progress::micro_step(std::int64_t micro_batch, std::int64_t of) {
  constexpr double kLong = 5;  // seconds
  micro_batch_ = micro_batch;
  micro_batches_ = of;
  if (silent_ || timed_steps_ > 0) return draw();
  if (screen_.live() && !first_step_)
    first_step_.emplace(
        [this] { screen_.live_line([this](int) { return first_step_line(view(), seconds_in_step()); }); });
  if (!screen_.live() && micro_batch == 2 && seconds_in_step() > kLong)
    screen_.line(str("step ", show::count(row_.step + 1), "  micro-batch 1/", show::count(of), " took ",
                     show::duration(seconds_in_step())));
}

void Progress::answering(std::int64_t done, std::int64_t of) {
  first_step_.reset();
  if (silent_) return;
  screen_.live_line([this, done, of](int width) { return curve(width) + answering_line(view(), done, of); });
}

void Progress::step(const StepRow& row) {
  course_.loss.push_back(row.loss);
  row_ = row;
  if (!screen_.live() && !steps_per_print_) print();
}

void Progress::evaluating(std::int64_t done, std::int64_t of) {
  first_step_.reset();
  if (silent_) return;
  screen_.live_line([this, done, of](int width) { return curve(width) + evaluating_line(view(), done, of); });
}

void Progress::evaluation(const EvalRow& row) {
  first_step_.reset();
  course_.add(row);
  if (silent_) return;
  draw();
  screen_.line(evaluation_line(row));
}

void Progress::saved(const SavedRow& row) {
  first_step_.reset();
  if (!silent_) screen_.line(saved_line(row));
}

void Progress::note(const std::string& text) {
  first_step_.reset();
  if (!silent_) screen_.line(text);
}

void Progress::warning(const std::string& text) {
  first_step_.reset();
  if (warns_) screen_.line(screen_.yellow("warning:") + " " + text);
}

void Progress::end(const Summary& summary) {
  first_step_.reset();
  screen_.clear();
  if (silent_) return;
  screen_.line("");
  labelled(summary_lines(header_, summary, course_));
}

}  // namespace ft
