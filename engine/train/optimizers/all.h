// One function for each optimizer, in the file of its name. They throw UserError(config) for mistakes in
// training.optim_args, by their place in the settings.
#pragma once
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {

using MakeOptimizer = std::unique_ptr<const Optimizer>(const TrainingConfig&, const SettingsText&);
MakeOptimizer make_adafactor, make_adagrad, make_adamw, make_adamw_8bit, make_lion, make_lion_8bit, make_muon,
    make_onebit_adam, make_rmsprop, make_sgd;

}  // namespace ft
