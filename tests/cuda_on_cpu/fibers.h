// Runs the blocks of one launch.
#pragma once
#include <functional>

#include "tests/cuda_on_cpu/cuda_runtime.h"

namespace cuda_on_cpu {

constexpr std::size_t kMostShared = 99 << 10;  // bytes: sm_86, 89 and 120

void run_blocks(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& body);

}  // namespace cuda_on_cpu
