// lora.init_lora_weights=eva: passes over the training data before the run's own memory is taken.
#pragma once
#include "app/run/run.h"
#include "app/train/run_folder.h"

namespace ft {

// Gives new adapters that begin from the data their ranks and their first A; a run that goes on from a
// checkpoint takes the ranks from there. Every rank makes the same passes. Throws UserError if the memory is
// not enough, or the data does not tell.
void begin_from_data(Run&, const RunFolder&, Screen&);

}  // namespace ft
