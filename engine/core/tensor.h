// A Tensor is a row-major view of memory owned by an Arena or a ParameterStore. Its last dimension is
// contiguous. Rows (all dimensions but the last, flattened) may be `stride` elements apart, so a block of
// columns is a view too. A default Tensor is empty; operations take an empty tensor to mean "not wanted" or
// "absent".
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

#include "engine/core/dtype.h"
#include "engine/core/require.h"

namespace ft {

struct Shape {
  std::int64_t dims[4] = {};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> values) {
    require(values.size() <= std::size(dims), "a shape has at most four dimensions");
    for (const auto v : values) dims[rank++] = v;
  }
  std::int64_t operator[](int i) const { return dims[i < 0 ? rank + i : i]; }
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  bool operator==(const Shape& o) const = default;
};

inline std::string to_string(const Shape& s) {
  std::string out = "[";
  for (int i = 0; i < s.rank; ++i) out += (i ? ", " : "") + std::to_string(s[i]);
  return out + "]";
}

struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t stride = 0;  // elements from one row to the next; cols() when dense

  Tensor() = default;
  Tensor(std::byte* at, DType type, Shape s, std::int64_t row_stride = 0)
      : data(at), dtype(type), shape(s), stride(row_stride) {
    if (stride == 0) stride = cols();
  }
  explicit operator bool() const { return data != nullptr; }

  std::int64_t cols() const { return shape.rank == 0 ? 1 : shape[-1]; }
  std::int64_t rows() const { return cols() == 0 ? 0 : numel() / cols(); }
  std::int64_t numel() const { return shape.numel(); }
  std::int64_t bytes() const { return numel() * size_of(dtype); }
  bool dense() const { return stride == cols() || rows() <= 1; }

  // Rows [begin, end) as a (end - begin, cols) view.
  Tensor slice(std::int64_t begin, std::int64_t end) const {
    require(0 <= begin && begin <= end && end <= rows(), "slice out of range");
    return {data + begin * stride * size_of(dtype), dtype, {end - begin, cols()}, stride};
  }
  // Columns [begin, end) of every row.
  Tensor columns(std::int64_t begin, std::int64_t end) const {
    require(0 <= begin && begin <= end && end <= cols(), "columns out of range");
    return {data + begin * size_of(dtype), dtype, {rows(), end - begin}, stride};
  }
  // `count` dense elements from `first` on, as one dimension.
  Tensor elements(std::int64_t first, std::int64_t count) const {
    require(dense() && 0 <= first && 0 <= count && first + count <= numel(), "elements out of range");
    return {data + first * size_of(dtype), dtype, {count}};
  }
  // Returns the elements of this dense tensor in another shape.
  Tensor view(Shape s) const {
    require(dense() && s.numel() == numel(), "view of another size");
    return {data, dtype, s};
  }
  template <class T>
  T* as() const {
    require(dtype == DTypeOf<T>::value, "tensor read as another type");
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace ft
