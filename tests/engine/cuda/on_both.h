// Matrices for tests of kernels, on the host's stand-in for a GPU and in the host's memory.
#pragma once
#include "tests/engine/cuda/planted.h"

namespace ft::cuda {

constexpr Order kAllOrders[] = {Order::forward, Order::backward, Order::shuffled};

// A matrix on the host and on the GPU, with NaN bytes between its rows.
class OnBoth {
 public:
  OnBoth(std::int64_t rows, std::int64_t cols, DType type, std::int64_t pad)
      : host(rows, cols, type, pad),
        bytes_(static_cast<std::size_t>((rows * (cols + pad)) * size_of(type))),
        device_((bytes_ + 3) / 4) {
    tensor = Tensor(reinterpret_cast<std::byte*>(device_.get()), type, {rows, cols}, cols + pad);
  }
  // Fills in whole numbers in [-most, most], times `unit`.
  OnBoth& fill(int seed, int most, double unit = 1) {
    int i = seed;
    for (std::int64_t r = 0; r < host.tensor.rows(); ++r)
      for (std::int64_t c = 0; c < host.tensor.cols(); ++c, i += 7)
        host.set(r, c, unit * ((i + i / 11 + i / 143) % (2 * most + 1) - most));
    copy(tensor.data, host.tensor.data, cudaMemcpyHostToDevice);
    return *this;
  }
  OnBoth& randomize(std::uint64_t seed) {
    host.randomize(seed);
    copy(tensor.data, host.tensor.data, cudaMemcpyHostToDevice);
    return *this;
  }
  void fetch() { copy(host.tensor.data, tensor.data, cudaMemcpyDeviceToHost); }

  Matrix host;
  Tensor tensor;

 private:
  void copy(void* to, const void* from, cudaMemcpyKind kind) const {
    const Stream s;
    const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
    const auto width = static_cast<std::size_t>(tensor.cols()) * size,
               pitch = static_cast<std::size_t>(tensor.stride) * size;
    check(cudaMemcpy2DAsync(to, pitch, from, pitch, width, static_cast<std::size_t>(tensor.rows()), kind, s),
          "test");
    check(cudaStreamSynchronize(s), "test");
  }
  std::size_t bytes_;
  Memory device_;
};

}  // namespace ft::cuda
