// Conversion between float formats and the search for NaN and Inf: kernels that are compiled for every target
// and run on the calling thread. engine/files/convert.h has the contract.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"

namespace ft::cpu {

struct ConvertKernels {
  void (*convert)(void* to, DType to_type, const void* from, DType from_type, std::int64_t n);
  std::int64_t (*find_nonfinite)(const void* data, DType type, std::int64_t n);
};
const ConvertKernels& best_convert_kernels();

}  // namespace ft::cpu
