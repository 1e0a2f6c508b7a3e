// training.param_groups, embedding_learning_rate and loraplus_lr_ratio: which weights are updated otherwise
// than the rest.
#pragma once
#include "engine/model/model.h"
#include "engine/train/config.h"

namespace ft {

// Once it is chosen what is trained. UserError(config) for a pattern that fits nothing that is.
void set_update_rules(Model&, const TrainingConfig&);

}  // namespace ft
