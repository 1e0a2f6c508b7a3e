// An exponential moving average of the weights (training.ema_decay) beside any optimizer, as one more of its
// states: average = decay average + (1 - decay) weight after every step, from the first weights on.
#pragma once
#include "engine/train/optimizers/optimizer.h"

namespace ft {

constexpr StateSpec kAverage{.name = "ema"};

std::unique_ptr<const Optimizer> with_average(std::unique_ptr<const Optimizer>, double decay);

}  // namespace ft
