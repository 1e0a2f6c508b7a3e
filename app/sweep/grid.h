// The runs of a sweep: every combination of the values in sweep.grid, each with every set of settings in
// sweep._ .
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "app/config/config.h"

namespace ft {

struct SweepRun {
  std::string name;  // a file's name: zero_stage=0,max_seq_length=512
  std::vector<std::pair<std::string, std::string>> settings;  // dotted path, value as a person reads it
  RunConfig config;  // with them; its output folder is the sweep's with the name
};

struct SweepPlan {
  std::string folder;  // the output_dir of the configuration
  OnFailure on_failure = OnFailure::go_on;
  std::vector<std::string> columns;  // dotted paths that differ, in the order they were written
  std::vector<SweepRun> runs;
};

// Checks every run before the first one starts: UserError(Exit::config) names the grid's line. `without` is a
// path of the grid that is left out; empty: none.
SweepPlan read_sweep(const std::string& file, const std::vector<std::string>& overrides,
                     const std::string& without = "");

// The last part of a dotted path, as columns and names use it.
std::string short_name(const std::string& path);

}  // namespace ft
