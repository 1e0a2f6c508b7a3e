// The runs of a sweep: every combination of the values in sweep.grid, each with every set of settings in
// sweep._ .
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "app/config/config.h"

namespace ft {

struct SweepRun {
  std::string name;                                           // a file name: zero_stage=0,max_seq_length=512
  std::vector<std::pair<std::string, std::string>> settings;  // dotted path, value as text
  RunConfig config;  // the run; its output folder is the sweep's plus the name
};

struct SweepPlan {
  std::string folder;  // output_dir of the configuration
  OnFailure on_failure = OnFailure::go_on;
  std::vector<std::string> columns;  // dotted paths that differ, in the order of the file
  std::vector<SweepRun> runs;
};

// Reads a sweep and checks every run before the first one starts. Throws UserError (config) that names the
// grid's line. `without`: a path of the grid to leave out; empty: none.
SweepPlan read_sweep(const std::string& file, const std::vector<std::string>& overrides,
                     const std::string& without = "");

// Returns the last part of a dotted path, for columns and names.
std::string short_name(const std::string& path);

}  // namespace ft
