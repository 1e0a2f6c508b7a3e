// Sizes of a ParameterStore's memory.
#pragma once
#include <cstdint>

#include "engine/core/heap.h"

namespace ft {

// Bytes of this rank's memory.
struct StoreMemory {
  std::int64_t weights = 0;  // frozen values
  std::int64_t trained = 0;  // trained values
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  // states, and f32 masters of narrower values
  // Gathered and fetched values and gradients, windows, buffers of the communicator and of depots.
  std::int64_t communication = 0;
  std::int64_t host = 0;       // a GPU's data in host memory
  std::int64_t elsewhere = 0;  // data in files
};

// Bytes of the memory that holds gathered data for a while.
struct TransientMemory {
  std::int64_t values = 0, grads = 0, windows = 0;
};
inline constexpr TransientMemory kMeasured{Heap::kEndless, Heap::kEndless, Heap::kEndless};  // on NullOps

}  // namespace ft
