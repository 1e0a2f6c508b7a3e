// The texts of a training run for people: the lines at its start, the live line, the lines at its end. Pure
// functions from rows to text; Progress decides when and where to show them.
#pragma once
#include <string>
#include <vector>

#include "engine/train/reports/report.h"

namespace ft {

// A line of the form "model LlamaForCausalLM, ...". The label is bold; the text is indented after it.
struct LabelledLine {
  std::string label, text;
  bool whole = false;  // never wrapped, because it is a path or command to copy
};
constexpr int kLabelWidth = 9;

std::string title_line(const RunHeader& header);      // ft 0.1  run.json -> outputs/gsm8k
std::string sample_text(const DataHeader& data);      // 7,473 samples, 1.60 M tokens (41 % trained)
std::string sequences_text(const RunHeader& header);  // 16 sequences; 1 packed sequence
std::string rate_text(const RunHeader& header);  // 1.0e-06, linear (default of dpo: training.learning_rate)
std::vector<LabelledLine> header_lines(const RunHeader& header);

// The numbers for a step's line. The least important columns are dropped until the line fits `width` (0: no
// limit). With Bar::none no bar fills the rest of the line.
struct StepView {
  const RunHeader& header;
  const StepRow& row;
  double seconds_left = 0;                          // negative: unknown
  std::int64_t micro_batch = 0, micro_batches = 0;  // of the current step; 0: no step runs
};
enum class Bar : std::uint8_t { none, ascii, utf8 };
// Returns a bar of `width` columns; the share `done` (0 to 1) is full.
std::string drawn_bar(double done, int width, Bar kind);
std::string step_line(const StepView& view, int width, Bar bar);
// Returns the live line of the first step, which has run for `seconds`.
std::string first_step_line(const StepView& view, double seconds);
std::string evaluating_line(const StepView& view, std::int64_t done, std::int64_t of);
std::string answering_line(const StepView& view, std::int64_t done, std::int64_t of);

std::string measures_text(const Measures& measures);  // "  bleu 71.2  chrf 80.1"; "" if there are none
std::string evaluation_line(const EvalRow& row);
std::string saved_line(const SavedRow&);

// Losses and rewards of the run, for its last lines.
struct Course {
  std::vector<double> loss;       // first and last logged loss; empty: none
  std::vector<EvalRow> held_out;  // first and last evaluation
  double best = 0;                // lowest held-out loss
  std::int64_t best_step = 0;     // 0: none yet
  std::vector<double> reward;     // rewards of steps with rewarded answers
  // Number of steps with rewarded answers; number of those in which all answers to a prompt got the same
  // reward.
  std::int64_t rewarded = 0, equally_rewarded = 0;

  // Notes the rewards among a step's columns.
  void take_rewards(const Measures& columns);
  void add(const EvalRow& row) {
    if (better(row.eval_loss, best_step ? std::optional(best) : std::nullopt, false)) {
      best = row.eval_loss;
      best_step = row.step;
    }
    held_out.push_back(row);
  }
};
std::vector<LabelledLine> summary_lines(const RunHeader& header, const Summary& summary,
                                        const Course& course);

}  // namespace ft
