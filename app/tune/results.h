// The results of ft tune: a row on the terminal for each trial, tune.md for people, tune.svg as a picture,
// JSON for programs.
#pragma once
#include <string>
#include <vector>

#include "app/screen/format.h"

namespace ft {

struct TuneRow {                    // settings that fit
  std::vector<std::string> values;  // by column; empty: no effect here
  std::string assigned;             // all settings as JSON: {"zero_optimization.stage": 2, ...}
  std::int64_t memory = 0;          // planned bytes of a rank
  double predicted = 0;             // tokens/s; NaN: no prediction
  double tokens_per_second = 0;     // measured; NaN: it failed, or was not tried
  double seconds_per_step = 0;      // measured, like tokens_per_second
  std::string result;               // result of the trial; empty: not tried
};

struct TuneResults {
  std::vector<std::string> labels;  // names of the columns
  std::vector<TuneRow> rows;        // all settings that fit
  std::vector<std::size_t> trials;  // indexes of rows, in the order of the trials
  std::size_t best = 0;             // index of a row
  std::ptrdiff_t start = -1;  // index of the unchanged configuration's row; -1: none, or it does not fit
  std::size_t too_large = 0;  // number of settings that do not fit

  show::MemoryUnit memory_unit() const;  // unit for all rows
  std::string header() const;
  std::string line(const TuneRow&) const;
  std::string settings(const TuneRow&) const;  // zero 2, batch 4 x 2, recompute false
  std::string markdown() const;                // table of the trials
  // Draws two panels. Left: tokens/s over memory, measured and predicted. Right: the trials in their order.
  std::string svg(const std::string& title) const;
  std::string json(const std::string& metric, const std::string& tuned) const;
};

}  // namespace ft
