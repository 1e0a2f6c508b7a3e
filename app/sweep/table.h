// The results of a sweep's runs: a row on the terminal as each one ends, sweep.csv for programs, sweep.md for
// people, sweep.svg as a picture, sweep.json to continue from.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace ft {

struct SweepRow {
  std::string name;                 // of the run
  std::vector<std::string> values;  // by column; empty where the run leaves a setting as it is
  std::int64_t memory = 0;          // bytes a rank: the peak, or planned where nothing ran; 0: unknown
  double tokens_per_second = NAN, train_loss = NAN, eval_loss = NAN;  // NaN: none
  int exit_code = 0;
  std::string result;  // done, fits, out of memory: ..., or the run's last words
};

struct SweepTable {
  std::vector<std::string> columns;  // dotted paths
  std::vector<SweepRow> rows;        // in the order of the runs

  // For a terminal; `all` are the values that will come, so that columns keep their width.
  std::string header(const std::vector<SweepRow>& all) const;
  std::string line(const SweepRow& row, const std::vector<SweepRow>& all) const;

  std::string csv() const;       // full numbers, memory in bytes
  std::string markdown() const;  // as on the terminal
  // Memory a rank and tokens/s over one setting, a line for each combination of the others. The setting is
  // data.max_seq_length, else the first with two numbers. Empty where there is none.
  std::string svg(const std::string& title) const;
  std::string json() const;
};

// What json() wrote. UserError(Exit::input) where it is something else; a file that is not there has no rows.
SweepTable read_sweep_table(const std::string& file);

}  // namespace ft
