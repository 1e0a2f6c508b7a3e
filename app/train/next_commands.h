// The commands that the last lines of a run suggest. Each can be typed as printed: it names the run's own
// run.json, which includes the settings of the command line, and is quoted for a shell.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"

namespace ft {

struct EndedRun {
  const RunConfig& config;
  int ranks = 1;          // ranks of the run, on all machines
  bool held_out = false;  // there is held-out data
  bool talks = false;     // the result has a tokenizer
};

// Returns ways to use the result, the most likely first: ft chat, or ft score for a reward model; ft eval; ft
// merge.
std::vector<std::string> next_commands(const EndedRun&);

// Returns the command that resumes a stopped run.
std::string resume_command(const EndedRun&);

}  // namespace ft
