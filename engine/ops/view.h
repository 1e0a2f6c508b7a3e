// A Tensor without its member functions. Kernels must not use those: the linker could merge versions for
// different CPUs, and GPUs do not have them.
#pragma once
#include "engine/core/tensor.h"

namespace ft {

struct View {
  void* data;  // null: not wanted
  DType type;
  std::int64_t rows, cols, stride;  // stride in elements
};

FT_HD inline View view_of(const Tensor& t) {
  const Shape& s = t.shape;
  const std::int64_t cols = s.rank == 0 ? 1 : s.dims[s.rank - 1];
  std::int64_t rows = cols == 0 ? 0 : 1;
  for (int i = 0; i + 1 < s.rank; ++i) rows *= s.dims[i];
  return {t.data, t.dtype, rows, cols, t.stride};
}

// The elements of a tensor whose type has been checked; null if it is empty.
template <class T>
FT_HD inline T* data_of(const Tensor& t) {
  return reinterpret_cast<T*>(t.data);
}

}  // namespace ft
