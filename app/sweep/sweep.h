// ft sweep: one run after another, each a process of its own in a folder of its own. What fails is a result,
// not the end; a sweep that is started again goes on where it stopped.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct SweepArgs : ConfigArgs {
  bool dry_run = false;  // plan every run, start none
  bool longest = false;  // instead of training: the longest max_seq_length that fits, for each of the others
};
Exit sweep(const SweepArgs&);

}  // namespace ft
