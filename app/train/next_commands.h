// The commands that the last lines of a run suggest. Each can be typed as printed: it points to the run's own
// run.json, which has the settings of the command line too, and is quoted for a shell.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"

namespace ft {

struct EndedRun {
  const RunConfig& config;
  int ranks = 1;          // of the run, on all machines
  bool held_out = false;  // there are samples to evaluate on
  bool talks = false;     // the result has a tokenizer
};

// Ways to use the result, the likeliest first: ft chat, or ft score for a reward model; ft eval; ft merge.
std::vector<std::string> next_commands(const EndedRun&);

// Goes on with a run that was stopped.
std::string resume_command(const EndedRun&);

}  // namespace ft
