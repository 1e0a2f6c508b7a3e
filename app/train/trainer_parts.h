// A run's parts as the training loop takes them.
#pragma once
#include "app/run/run.h"
#include "engine/train/trainer.h"

namespace ft {

// The run has started. Nothing stops its loop or adds to its checkpoints.
TrainerParts trainer_parts(Run&, Checkpoints&, Report&);

}  // namespace ft
