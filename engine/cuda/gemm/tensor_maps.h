// Descriptors of matrices for the GPU's copying engine (compute capability 9.0 and later): kernels fetch
// boxes of 64 columns (kernels/tma.cuh), with zeros beyond the matrix.
#pragma once
#include <cstdint>

#include "engine/core/tensor.h"

namespace ft::cuda {

// NVIDIA's CUtensorMap. Only the driver knows its content.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

// True if a matrix of two-byte elements can have a map: its rows begin at multiples of 16 bytes.
bool mappable(const Tensor&);
// rows: of a box, at most 256. Throws UserError (hardware) if the driver has no such function or refuses.
TensorMap map_of(const Tensor&, int rows);

}  // namespace ft::cuda
