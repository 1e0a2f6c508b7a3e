// lora.init_lora_weights=eva: passes over the training data before the run's own memory is taken.
#pragma once
#include "app/run/run.h"
#include "app/train/run_folder.h"

namespace ft {

// Gives new adapters the ranks and the first A that the data decides. A run that resumes takes the ranks from
// its checkpoint. Every rank makes the same passes. Throws UserError (memory) if there is too little memory,
// (config) if the data does not decide them.
void begin_from_data(Run&, const RunFolder&, Screen&);

}  // namespace ft
