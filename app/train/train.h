// ft train: builds the run in reading order, plans and takes its memory, and runs the Trainer.
#pragma once
#include <string>

#include "app/begin/begin.h"
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct TrainArgs : ConfigArgs {
  BeginArgs begin;         // with a model: instead of a configuration
  bool overwrite = false;  // replace a run in the output folder
  std::string trace;       // file for a timeline of a few steps; empty: none
};
Exit train(const TrainArgs&);

// Chooses the settings of a run that begins from a model and data, and shows them. ranks: as in Beginning.
// Throws UserError (config) if the run's folder already contains a run.
Beginning begin_training(const TrainArgs&, int ranks, Screen&);

}  // namespace ft
