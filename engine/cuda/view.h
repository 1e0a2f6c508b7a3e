// Tensors as kernels take them.
#pragma once
#include "engine/core/tensor.h"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {

inline View view_of(const Tensor& t) { return {t.data, t.dtype, t.rows(), t.cols(), t.stride}; }

}  // namespace ft::cuda
