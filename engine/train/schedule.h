// The learning rate of every step, by transformers' get_scheduler.
#pragma once
#include "engine/train/config.h"

namespace ft {

// The rate of step `step` (0-based) of `total`. With warm-up the first step's is 0.
double learning_rate(const TrainingConfig&, std::int64_t step, std::int64_t total);

}  // namespace ft
