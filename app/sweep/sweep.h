// ft sweep: one run after another, each a process with its own folder. A failure is a result, not the end; a
// sweep that is started again continues where it stopped.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct SweepArgs : ConfigArgs {
  bool dry_run = false;  // plan every run, start none
  bool longest = false;  // instead of training: the longest max_seq_length that fits, for each of the others
  std::string find;      // instead of the grid: the best value of this setting; empty: none
};
Exit sweep(const SweepArgs&);

}  // namespace ft
