// ft train: builds the run in reading order, plans and takes its memory, and runs the Trainer.
#pragma once
#include <string>

#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct TrainArgs : ConfigArgs {
  bool overwrite = false;  // replace a run in the output folder
  std::string trace;       // file for a timeline of a few steps; empty: none
};
Exit train(const TrainArgs&);

}  // namespace ft
