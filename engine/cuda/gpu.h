// A GPU: its stream, its memory, and copies to and from it.
#pragma once
#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "engine/core/arena.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

class Gpu {
 public:
  // Throws UserError (hardware) if there is no such GPU, no driver for it, or it is too old. staging: bytes
  // of host memory that uploads pass through.
  Gpu(int index, std::int64_t staging);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const { return index_; }
  int capability() const { return capability_; }  // the major number: 9 is Hopper
  void use() const;  // selects this GPU in the calling thread, which may be new and would use the first GPU
  cudaStream_t stream() const { return stream_; }
  Buffer allocate(std::int64_t bytes) const;
  std::int64_t free_memory() const;
  // Bytes that CUDA itself uses. A value above 3 GiB would include other programs: then it is
  // CudaWorkspace::kDriver.
  std::int64_t driver_memory() const;

  // Several threads may request copies. The host's memory may be reused as soon as the call returns. An
  // upload waits for the GPU only if the staging memory is full of data that the GPU has not read yet.
  void upload(void* device, const void* host, std::int64_t bytes);
  void download(void* host, const void* device, std::int64_t bytes);  // returns when the data has arrived
  void synchronize() const;
  // Makes every wait for the stream call this repeatedly from now on; an exception that it throws ends the
  // wait. Empty: stops that. For streams that may wait for other ranks.
  void while_waiting(std::function<void()> look) { look_ = std::move(look); }

 private:
  void stage(std::byte* device, const std::byte* host, std::int64_t bytes);
  template <class Block, class Query>
  void wait(Block, Query, const char* what) const;

  // parts of the staging memory: one is filled while the GPU reads the other
  static constexpr int kParts = 2;

  int index_, capability_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<std::atomic<std::int64_t>> held_ = std::make_shared<std::atomic<std::int64_t>>(0);
  std::function<void()> look_;
  std::mutex staging_mutex_;  // guards the members below
  std::byte* staging_ = nullptr;
  std::int64_t part_;  // bytes
  int current_ = 0;
  std::int64_t used_ = 0;                   // bytes of the current part
  std::array<cudaEvent_t, kParts> read_{};  // events after which the GPU has read the part
};

// Returns the GPU of Ops made by make_cuda_ops.
Gpu& gpu_of(Ops&);

}  // namespace ft::cuda
