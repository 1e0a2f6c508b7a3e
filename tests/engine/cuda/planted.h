// Runs test kernels on the host's stand-in for a GPU. Returns the 64 numbers that they write, or the fault.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "engine/cuda/kernels/device.cuh"
#include "tests/cuda_on_cpu/cuda_runtime.h"
#include "tests/engine/cuda/both.h"

namespace ft::cuda {

using cuda_on_cpu::Fault;
using cuda_on_cpu::Order;

template <std::size_t n>
struct Numbers {
  float at[n];
};

class Stream {
 public:
  Stream() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Memory {
 public:
  explicit Memory(std::size_t floats) : floats_(floats) {
    check(cudaMalloc(&data_, floats * sizeof(float)), "test");
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  float* get() const { return static_cast<float*>(data_); }
  std::vector<float> values(cudaStream_t s) const {
    std::vector<float> v(floats_);
    check(cudaMemcpyAsync(v.data(), data_, floats_ * sizeof(float), cudaMemcpyDeviceToHost, s), "test");
    check(cudaStreamSynchronize(s), "test");
    return v;
  }

 private:
  std::size_t floats_;
  void* data_ = nullptr;
};

// Returns the results for the three orders of threads.
template <class... Arguments>
std::vector<std::vector<float>> in_each_order(void (*kernel)(float*, Arguments...), Arguments... arguments) {
  std::vector<std::vector<float>> all;
  for (int order = 0; order < kOrders; ++order) {
    set_order(order);
    const Stream stream;
    const Memory y(64);
    launch("test", {stream, dim3(1), 64, sizeof(Numbers<64>)}, kernel, y.get(), arguments...);
    all.push_back(y.values(stream));
  }
  cuda_on_cpu::set_order(Order::forward);
  return all;
}

inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Returns the fault of a kernel, which is thrown when the kernel runs.
template <class... Arguments>
std::string fault_of(std::size_t shared, unsigned threads, void (*kernel)(float*, Arguments...),
                     Arguments... arguments) {
  const Stream stream;
  const Memory y(64);
  launch("test", {stream, dim3(2), threads, shared}, kernel, y.get(), arguments...);
  try {
    cudaStreamSynchronize(stream);
  } catch (const Fault& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace ft::cuda
