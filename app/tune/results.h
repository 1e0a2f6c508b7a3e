// What ft tune found: a row on the terminal for each trial, tune.md for people, tune.svg as a picture, JSON
// for programs.
#pragma once
#include <string>
#include <vector>

#include "app/screen/format.h"

namespace ft {

struct TuneRow {                    // a setting that fits
  std::vector<std::string> values;  // by column; empty where one has no effect
  std::string assigned;             // all of them as JSON: {"zero_optimization.stage": 2, ...}
  std::int64_t memory = 0;          // planned bytes of a rank
  double predicted = 0;             // tokens/s before it was tried, or now; NaN: nothing was known
  double tokens_per_second = 0;     // measured; NaN: it failed, or was not tried
  double seconds_per_step = 0;      // the same
  std::string result;               // of a trial; empty: it was not tried
};

struct TuneResults {
  std::vector<std::string> labels;  // of the columns
  std::vector<TuneRow> rows;        // all that fit
  std::vector<std::size_t> trials;  // rows, in the order they were tried
  std::size_t best = 0;             // a row
  std::ptrdiff_t start = -1;        // the row of the configuration as it is; -1: none, or it does not fit
  std::size_t too_large = 0;        // settings that do not fit

  show::MemoryUnit memory_unit() const;  // of all rows
  std::string header() const;
  std::string line(const TuneRow&) const;
  std::string settings(const TuneRow&) const;  // zero 2, batch 4 x 2, recompute false
  std::string markdown() const;                // the trials
  // Left: tokens/s over memory, measured and predicted. Right: the trials in their order.
  std::string svg(const std::string& title) const;
  std::string json(const std::string& metric, const std::string& tuned) const;
};

}  // namespace ft
