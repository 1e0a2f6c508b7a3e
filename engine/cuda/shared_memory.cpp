#include "engine/cuda/shared_memory.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "engine/cuda/status.h"

namespace ft::cuda {

void allow_shared_memory(const void* kernel, std::size_t bytes, const char* what) {
  int device = 0;
  check(cudaGetDevice(&device), what);
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, std::size_t> allowed;  // by CUDA, until the process ends
  const std::lock_guard lock(mutex);
  std::size_t& most = allowed[{device, kernel}];
  if (bytes <= most) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        what);
  most = bytes;
}

}  // namespace ft::cuda
