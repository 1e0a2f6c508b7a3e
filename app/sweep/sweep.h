// ft sweep: runs one run after another, each in a process with its own folder. A failed run is a result and
// does not end the sweep. A sweep that is started again continues where it stopped.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct SweepArgs : ConfigArgs {
  bool dry_run = false;  // plan every run, start none
  bool longest = false;  // find the longest max_seq_length that fits, instead of training
  std::string find;      // find the best value of this setting, instead of the grid
};
Exit sweep(const SweepArgs&);

}  // namespace ft
