// Work of rank 0 before a step, such as rewards, of which all ranks hear.
#pragma once
#include <functional>

#include "engine/ranks/communicator.h"

namespace ft {

// Runs `work` on rank 0. A UserError there becomes StepRefused, with its text and code, on all ranks.
void on_root(Communicator&, const std::function<void()>& work);

}  // namespace ft
