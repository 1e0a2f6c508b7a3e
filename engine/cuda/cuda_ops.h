// Ops on one NVIDIA GPU. A build without CUDA has absent.cpp instead.
#pragma once
#include <memory>

#include "engine/ops/ops.h"

namespace ft {

// UserError(Exit::hardware) when there is no such device or this build has no CUDA.
std::unique_ptr<Ops> make_cuda_ops(int index);

}  // namespace ft
