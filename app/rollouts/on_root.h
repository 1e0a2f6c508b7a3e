// Work that rank 0 alone does before a step, such as rewards.
#pragma once
#include <functional>

#include "engine/ranks/communicator.h"

namespace ft {

// Runs `work` on rank 0. A UserError there becomes StepRefused, with its text and code, on all ranks.
void on_root(Communicator&, const std::function<void()>& work);

}  // namespace ft
