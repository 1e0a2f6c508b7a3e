// lora.init_lora_weights=eva and lora_ga: passes over the training data before the run's own memory is taken.
#pragma once
#include "app/run/run.h"
#include "app/train/run_folder.h"

namespace ft {

// Gives new adapters the beginning that the data decides, and does nothing if it decides none. Every rank
// makes the same passes. Throws UserError (memory) if there is too little memory, (config) if the data does
// not decide.
void begin_from_data(Run&, const RunFolder&, Screen&);

// EVA decides the ranks and the first A. A run that resumes takes the ranks from its checkpoint.
void begin_by_eva(Run&, const RunFolder&, Screen&);
// LoRA-GA decides the first A and B. A run that resumes takes them from its checkpoint.
void begin_by_gradients(Run&, const RunFolder&, Screen&);

// Returns batches of the training data in the order of its first epoch, without padding.
Batcher unpadded(const BuiltData&);

}  // namespace ft
