// Makes the line of a step fit the screen: every part has a rank, and the highest ranks are dropped first. A
// wide screen also shows a bar.
#include <algorithm>
#include <cmath>

#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "engine/core/error.h"

namespace ft {
namespace {

struct Part {
  std::string text;
  int rank;  // 0 is never dropped
};

constexpr int kSmallestBar = 10, kLargestBar = 40;

std::string joined(const std::vector<Part>& parts, int rank) {
  std::string out;
  for (const Part& part : parts)
    if (part.rank <= rank && !part.text.empty()) out += (out.empty() ? "" : "  ") + part.text;
  return out;
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

// Returns "" if a step has one micro-batch.
std::string micro_batch_text(const StepView& v) {
  if (v.micro_batches < 2) return "";
  return str("micro-batch ", show::count(v.micro_batch), "/", show::count(v.micro_batches));
}

std::string step_of_steps(const StepView& v) {
  const std::string all = show::count(v.header.steps);
  return right(show::count(v.row.step), all.size()) + "/" + all;
}

double part_done(const StepView& v) {
  return v.header.steps > 0 ? static_cast<double>(v.row.step) / static_cast<double>(v.header.steps) : 0;
}

// Returns the accuracy and margin of preferences, or the reward of answers.
std::string preference_text(const Measures& columns) {
  std::string text;
  for (const auto& [name, value] : columns) {
    if (name == "rewards/accuracies" || name == "accuracy")
      text = "accuracy " + show::digits(value, 2) + text;
    if (name == "reward") text += "reward " + show::digits(value, 3);
    if (name == "rewards/margins" || name == "margin") text += "  margin " + show::digits(value, 2);
  }
  return text;
}

}  // namespace

std::string drawn_bar(double done, int width, Bar kind) {
  const int full = static_cast<int>(std::clamp(done, 0.0, 1.0) * width);
  std::string out;
  for (int i = 0; i < width; ++i)
    out += kind == Bar::utf8 ? (i < full ? "\u2501" : "\u2500") : (i < full ? "=" : ".");
  return out;
}

std::string step_line(const StepView& v, int width, Bar bar) {
  const RunHeader& h = v.header;
  const StepRow& r = v.row;
  const bool skipped = r.loss_scaling && !std::isfinite(r.grad_norm);
  std::vector<Part> parts{
      {step_of_steps(v), 0},
      {right(show::fixed(std::floor(100 * part_done(v)), 0) + " %", 4), 3},
      {"loss " + (std::isnan(r.loss) ? "-" : show::loss(r.loss)), 1},
      {preference_text(r.columns), 3},
      {micro_batch_text(v), 4},
      {"lr " + show::rate(r.learning_rate), 5},
      {skipped ? "skipped" : "grad " + show::digits(r.grad_norm, 2), 6},
      {r.tokens_per_second > 0 ? show::speed(r.tokens_per_second) : "", 4},
      {h.peak_flops > 0 && r.flops_per_second > 0
           ? show::fixed(100 * r.flops_per_second / h.peak_flops, 0) + " % of peak"
           : "",
       7},
      {h.memory.total > 0 ? show::memory(h.memory.total) : "", 8},
      {v.seconds_left >= 0 && r.step < h.steps ? show::duration(v.seconds_left) + " left" : "", 2},
  };
  int rank = 8;
  if (width > 0)
    while (rank > 0 && show::columns(joined(parts, rank)) > width) --rank;
  const auto room = static_cast<int>(width - show::columns(joined(parts, rank))) - 2;
  if (bar != Bar::none && rank == 8 && room >= kSmallestBar)
    parts.insert(parts.begin() + 1, {drawn_bar(part_done(v), std::min(room, kLargestBar), bar), 0});
  return joined(parts, rank);
}

std::string first_step_line(const StepView& v, double seconds) {
  const std::string part = micro_batch_text(v);
  return str(step_of_steps(v), "  step ", show::count(v.row.step + 1), part.empty() ? "" : ", " + part, "  ",
             show::duration(seconds));
}

std::string answering_line(const StepView& v, std::int64_t done, std::int64_t of) {
  return str(step_of_steps(v), "  answering, prompt ", show::count(done), " of ", show::count(of));
}

std::string evaluating_line(const StepView& v, std::int64_t done, std::int64_t of) {
  return str(step_of_steps(v), "  evaluating, batch ", show::count(done), " of ", show::count(of));
}

}  // namespace ft
