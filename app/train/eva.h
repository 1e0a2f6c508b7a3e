// lora.init_lora_weights=eva: passes over the training data before the run's own memory is taken.
#pragma once
#include <memory>

#include "app/assembly/built_data.h"
#include "app/assembly/built_objective.h"
#include "app/ranks/ranks.h"
#include "app/screen/screen.h"
#include "app/train/run_folder.h"

namespace ft {

// Where they are to begin so, gives the model's new adapters their ranks and what A begins as; where the
// run goes on from a checkpoint, the ranks in it. Every rank makes the same passes, in memory that is
// planned, and given back. The device and the communicator are lent. UserError where there is not enough
// memory, or the data does not tell.
void begin_from_data(const RunConfig&, BuiltModel&, const BuiltObjective&, const BuiltData&, const Ranks&,
                     const RunFolder&, std::unique_ptr<Ops>&, std::unique_ptr<Communicator>&, Screen&);

}  // namespace ft
