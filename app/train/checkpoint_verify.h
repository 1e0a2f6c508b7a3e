// ft checkpoint verify: whether every file of a checkpoint, or of all checkpoints of a run, is as it was
// written.
#pragma once
#include <string>

#include "engine/core/error.h"

namespace ft {

// Exit::checkpoint when one is damaged; a run's folder stands for all of its checkpoints.
Exit checkpoint_verify(const std::string& path);

}  // namespace ft
