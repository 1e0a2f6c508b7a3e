// A matrix for tests of Ops, with optional gaps between rows and guard bytes around it and in the gaps. Its
// values are read and written as doubles.
#pragma once
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/core/random.h"
#include "engine/core/tensor.h"

namespace ft::test {

class Matrix {
 public:
  Tensor tensor;  // (rows, cols)

  Matrix(std::int64_t rows, std::int64_t cols, DType dtype, std::int64_t pad = 0) {
    const std::int64_t size = size_of(dtype), stride = cols + pad;
    memory_.assign(static_cast<std::size_t>((kGuard + rows * stride) * size + kGuard), kByte);
    tensor = Tensor(memory_.data() + kGuard * size, dtype, {rows, cols}, stride);
  }
  Matrix(const Matrix&) = delete;
  Matrix(Matrix&&) = default;  // moving keeps the vector's memory, so `tensor` stays valid

  std::size_t size() const { return static_cast<std::size_t>(tensor.numel()); }
  double get(std::int64_t r, std::int64_t c) const {
    switch (tensor.dtype) {
      case DType::bf16:
        return to_float(*place<bf16>(r, c));
      case DType::f16:
        return to_float(*place<f16>(r, c));
      case DType::i32:
        return *place<std::int32_t>(r, c);
      case DType::u8:
        return *place<std::uint8_t>(r, c);
      case DType::f64:
        return *place<double>(r, c);
      default:
        return *place<float>(r, c);
    }
  }
  void set(std::int64_t r, std::int64_t c, double v) {
    switch (tensor.dtype) {
      case DType::bf16:
        return from_float(*place<bf16>(r, c), static_cast<float>(v));
      case DType::f16:
        return from_float(*place<f16>(r, c), static_cast<float>(v));
      case DType::i32:
        *place<std::int32_t>(r, c) = static_cast<std::int32_t>(v);
        return;
      case DType::u8:
        *place<std::uint8_t>(r, c) = static_cast<std::uint8_t>(v);
        return;
      case DType::f64:
        *place<double>(r, c) = v;
        return;
      default:
        *place<float>(r, c) = static_cast<float>(v);
    }
  }
  // Returns all values, row by row, as rounded when they were set.
  std::vector<double> values() const {
    std::vector<double> all;
    for (std::int64_t r = 0; r < tensor.rows(); ++r)
      for (std::int64_t c = 0; c < tensor.cols(); ++c) all.push_back(get(r, c));
    return all;
  }
  Matrix& assign(const std::vector<double>& all) {
    std::size_t i = 0;
    for (std::int64_t r = 0; r < tensor.rows(); ++r)
      for (std::int64_t c = 0; c < tensor.cols(); ++c) set(r, c, all[i++]);
    return *this;
  }
  // Fills with uniform numbers in [-spread, spread], a function of the seed.
  Matrix& randomize(std::uint64_t seed, double spread = 2) {
    std::uint64_t i = 0;
    for (std::int64_t r = 0; r < tensor.rows(); ++r)
      for (std::int64_t c = 0; c < tensor.cols(); ++c)
        set(r, c, spread * (2 * double(to_uniform(Random{seed}.at(i++)[0])) - 1));
    return *this;
  }
  // Fills with whole numbers in [0, below).
  Matrix& randomize_indices(std::uint64_t seed, std::int64_t below) {
    for (std::int64_t r = 0; r < tensor.rows(); ++r)
      for (std::int64_t c = 0; c < tensor.cols(); ++c)
        set(r, c, double(Random{seed}.at(static_cast<std::uint64_t>(r * tensor.cols() + c))[0] % below));
    return *this;
  }
  // Returns true if no byte outside the matrix has changed.
  bool intact() const {
    const std::int64_t size = size_of(tensor.dtype), begin = kGuard * size, row = tensor.stride * size;
    const std::int64_t end = begin + tensor.rows() * row, total = static_cast<std::int64_t>(memory_.size());
    for (std::int64_t i = 0; i < total; ++i) {
      const bool inside = i >= begin && i < end && (i - begin) % row < tensor.cols() * size;
      if (!inside && memory_[static_cast<std::size_t>(i)] != kByte) return false;
    }
    return true;
  }
  bool same_bytes(const Matrix& o) const { return memory_ == o.memory_; }
  operator Tensor() const { return tensor; }

 private:
  static constexpr std::int64_t kGuard = 8;
  static constexpr std::byte kByte{0xff};  // reads as NaN
  template <class T>
  T* place(std::int64_t r, std::int64_t c) const {
    return tensor.as<T>() + r * tensor.stride + c;
  }
  std::vector<std::byte> memory_;
};

// Returns the mean of the squared differences over the mean of the expected squares.
inline double nmse(const std::vector<double>& got, const std::vector<double>& want) {
  double wrong = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    wrong += (got[i] - want[i]) * (got[i] - want[i]);
    all += want[i] * want[i];
  }
  if (got.size() != want.size() || !std::isfinite(wrong)) return HUGE_VAL;
  return all == 0 ? wrong : wrong / all;
}

}  // namespace ft::test
