// Matrices as the GPU's copying engine knows them (compute capability 9.0 and later): kernels fetch boxes of
// 64 columns from them (kernels/tma.cuh), zeros beyond their ends.
#pragma once
#include <cstdint>

#include "engine/core/tensor.h"

namespace ft::cuda {

// NVIDIA's CUtensorMap. Its content is the driver's.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

// Says whether a matrix of two-byte elements can have a map: its rows begin at multiples of 16 bytes.
bool mappable(const Tensor&);
// rows: of a box, at most 256. UserError(Exit::hardware) when the driver has no such function or refuses.
TensorMap map_of(const Tensor&, int rows);

}  // namespace ft::cuda
