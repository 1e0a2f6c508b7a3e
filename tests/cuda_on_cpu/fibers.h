// Runs the blocks of a launch.
#pragma once
#include <functional>

#include "tests/cuda_on_cpu/cuda_runtime.h"

namespace cuda_on_cpu {

// Bytes of shared memory that a block may have: on sm_86, 89 and 120, the smallest of all; on sm_90.
constexpr std::size_t kMostShared = 99 << 10, kMostSharedOf90 = 227 << 10;

struct Launch {
  dim3 grid, block;
  std::size_t shared;       // bytes of a block
  std::size_t cluster = 1;  // blocks that run together, neighbours in x
};
void run_blocks(const Launch&, const std::function<void()>& body);

}  // namespace cuda_on_cpu
