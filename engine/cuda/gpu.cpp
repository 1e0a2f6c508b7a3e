#include "engine/cuda/gpu.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/status.h"

namespace ft::cuda {
namespace {

constexpr int kLeastMajor = 8;  // the first compute capability with bf16 products

// Selects the GPU and returns its compute capability's major number.
int select(int index) {
  const std::string name = str("device cuda:", index);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    throw UserError(
        Exit::hardware,
        str(name, ": NVIDIA's driver is missing on this machine, or older than the CUDA ",
            CUDART_VERSION / 1000, " that this ft was built with; install it, or use device=cpu"));
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    throw UserError(Exit::hardware, str(name, ": this machine has no NVIDIA GPU; use device=cpu"));
  check(status, "looking for GPUs");
  if (index >= count)
    throw UserError(Exit::hardware, str(name, ": this machine has ", count, count == 1 ? " GPU" : " GPUs",
                                        ", counted from 0"));
  cudaDeviceProp about{};
  check(cudaGetDeviceProperties(&about, index), "querying the GPU");
  if (about.major < kLeastMajor)
    throw UserError(Exit::hardware,
                    str(name, ": ", about.name, " has compute capability ", about.major, ".", about.minor,
                        "; ft needs 8.0 or later (A100, RTX 30 and newer); use device=cpu"));
  check(cudaSetDevice(index), "selecting the GPU");
  return about.major;
}

}  // namespace

Gpu::Gpu(int index, std::int64_t staging)
    : index_(index), capability_(select(index)), part_(staging / kParts) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  for (cudaEvent_t& e : read_)
    check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "creating an event");
  void* p = nullptr;
  check(cudaMallocHost(&p, static_cast<std::size_t>(part_ * kParts)), "reserving pinned memory");
  staging_ = static_cast<std::byte*>(p);
}

Gpu::~Gpu() {
  cudaFreeHost(staging_);
  for (cudaEvent_t e : read_) cudaEventDestroy(e);
  cudaStreamDestroy(stream_);
}

Buffer Gpu::allocate(std::int64_t bytes) const {
  require(bytes >= 0, "allocate: a negative size");
  void* p = nullptr;
  check(cudaMalloc(&p, static_cast<std::size_t>(bytes > 0 ? bytes : 1)), "reserving memory");
  *held_ += bytes;
  return {static_cast<std::byte*>(p), [held = held_, bytes](std::byte* q) {
            cudaFree(q);
            *held -= bytes;
          }};
}

std::int64_t Gpu::free_memory() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "querying free memory");
  return static_cast<std::int64_t>(free);
}

std::int64_t Gpu::driver_memory() const {
  constexpr std::int64_t kMost = std::int64_t{3} << 30;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "querying free memory");
  const std::int64_t used = static_cast<std::int64_t>(total - free) - *held_;
  return used > kMost ? CudaWorkspace::kDriver : std::max<std::int64_t>(used, 0);
}

// Uploads through staging memory, because CUDA may read pageable memory after its call has returned.
void Gpu::upload(void* device, const void* host, std::int64_t bytes) {
  use();
  const std::lock_guard lock(staging_mutex_);
  auto* to = static_cast<std::byte*>(device);
  auto* from = static_cast<const std::byte*>(host);
  for (std::int64_t size; bytes > 0; to += size, from += size, bytes -= size) {
    size = std::min(bytes, part_);
    stage(to, from, size);
  }
}

// Uploads at most one part's bytes.
void Gpu::stage(std::byte* device, const std::byte* host, std::int64_t bytes) {
  if (used_ + bytes > part_) {
    check(cudaEventRecord(read_[static_cast<std::size_t>(current_)], stream_), "upload");
    current_ = (current_ + 1) % kParts;
    used_ = 0;
    const cudaEvent_t read = read_[static_cast<std::size_t>(current_)];
    wait([&] { return cudaEventSynchronize(read); }, [&] { return cudaEventQuery(read); }, "upload");
  }
  std::byte* at = staging_ + current_ * part_ + used_;
  const auto size = static_cast<std::size_t>(bytes);
  std::memcpy(at, host, size);
  check(cudaMemcpyAsync(device, at, size, cudaMemcpyHostToDevice, stream_), "upload");
  used_ += (bytes + Arena::kAlign - 1) / Arena::kAlign * Arena::kAlign;
}

void Gpu::download(void* host, const void* device, std::int64_t bytes) {
  use();
  if (look_) synchronize();  // a copy to pageable memory would block
  if (bytes > 0)
    check(cudaMemcpyAsync(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
          "download");
  synchronize();
}

void Gpu::use() const { check(cudaSetDevice(index_), "selecting the GPU"); }

// Polls without pause for some milliseconds, because most waits are short, and then every 50 us.
template <class Block, class Query>
void Gpu::wait(Block block, Query query, const char* what) const {
  if (!look_) return check(block(), what);
  constexpr int kLooks = 2000;
  for (int looks = 0;; ++looks) {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady) return check(status, what);
    look_();
    if (looks < kLooks)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void Gpu::synchronize() const {
  wait([&] { return cudaStreamSynchronize(stream_); }, [&] { return cudaStreamQuery(stream_); },
       "waiting for the GPU");
}

}  // namespace ft::cuda
