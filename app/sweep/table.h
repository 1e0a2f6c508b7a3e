// The results of a sweep: a row on the terminal as each run ends, sweep.csv for programs, sweep.md for
// people, sweep.svg as a picture, sweep.json to continue from.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace ft {

struct SweepRow {
  std::string name;                 // name of the run
  std::vector<std::string> values;  // by column; empty: the run does not change the setting
  std::int64_t memory = 0;          // peak bytes of a rank, or planned if nothing ran; 0: unknown
  double tokens_per_second = NAN, train_loss = NAN, eval_loss = NAN;  // NaN: none
  int exit_code = 0;
  std::string result;  // done, fits, out of memory: ..., or the run's last line
};

struct SweepTable {
  std::vector<std::string> columns;  // dotted paths
  std::vector<SweepRow> rows;        // in the order of the runs

  // Returns text for a terminal. `all`: the values of all rows, so that columns keep their width.
  std::string header(const std::vector<SweepRow>& all) const;
  std::string line(const SweepRow& row, const std::vector<SweepRow>& all) const;

  std::string csv() const;       // unrounded numbers, memory in bytes
  std::string markdown() const;  // as on the terminal
  // Draws memory per rank and tokens/s over one setting, with a line for each combination of the others. The
  // setting is data.max_seq_length, else the first with two numbers. Empty if there is none.
  std::string svg(const std::string& title) const;
  std::string json() const;
};

// Reads the text of json(). Throws UserError (input) if the file holds something else; a missing file has no
// rows.
SweepTable read_sweep_table(const std::string& file);

}  // namespace ft
