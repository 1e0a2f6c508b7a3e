// training.param_groups, embedding_learning_rate and loraplus_lr_ratio: weights with their own learning rate
// or decay.
#pragma once
#include "engine/model/model.h"
#include "engine/train/config.h"

namespace ft {

// Sets the update rule of every trained parameter. Call it when the trained parameters are chosen. Throws
// UserError (config) if a pattern matches no trained parameter.
void set_update_rules(Model&, const TrainingConfig&);

}  // namespace ft
