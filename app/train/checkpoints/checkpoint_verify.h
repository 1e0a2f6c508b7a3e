// ft checkpoint verify: checks that all files of a checkpoint, or of all checkpoints of a run, are unchanged.
#pragma once
#include <string>

#include "engine/core/error.h"

namespace ft {

// Verifies a checkpoint, or all checkpoints of a run's folder. Returns Exit::checkpoint if one is damaged.
Exit checkpoint_verify(const std::string& path);

}  // namespace ft
