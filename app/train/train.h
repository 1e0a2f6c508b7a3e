// ft train: everything is built in reading order, planned, reserved, and then the Trainer runs.
#pragma once
#include <string>

#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct TrainArgs : ConfigArgs {
  bool overwrite = false;  // replace a run that the output folder holds
  std::string trace;       // file for a timeline of a few steps; empty: none
};
Exit train(const TrainArgs&);

}  // namespace ft
