// One function for each optimizer, in the file of its name.
#pragma once
#include "engine/train/optimizers/optimizer.h"

namespace ft {

std::unique_ptr<const Optimizer> make_adamw(const TrainingConfig&);
std::unique_ptr<const Optimizer> make_lion(const TrainingConfig&);
std::unique_ptr<const Optimizer> make_sgd(const TrainingConfig&);

}  // namespace ft
