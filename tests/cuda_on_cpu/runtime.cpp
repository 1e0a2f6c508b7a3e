// Launches, copies and allocations. streams.cpp runs the kernels, one at a time.
#include <algorithm>
#include <map>

#include "tests/cuda_on_cpu/fibers.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/streams.h"

namespace cuda_on_cpu {
namespace {

std::map<const void*, std::size_t>& allowed_shared() {
  static std::map<const void*, std::size_t> m;
  return m;
}
std::map<std::byte*, std::size_t>& pinned() {
  static std::map<std::byte*, std::size_t> m;
  return m;
}
bool is_pinned(const void* p) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(p));
  auto it = pinned().upper_bound(at);
  return it != pinned().begin() && (--it, at < it->first + it->second);
}

int the_capability = 8, the_multiprocessors = 4;
std::size_t the_used = 0;

std::size_t most_shared() { return capability() == 9 ? kMostSharedOf90 : kMostShared; }

}  // namespace

int& shared_allowed() {
  static int times = 0;
  return times;
}

void set_capability(int major) { the_capability = major; }
int capability() { return the_capability; }
void set_multiprocessors(int n) { the_multiprocessors = n; }
void set_used(std::size_t bytes) { the_used = bytes; }

void enqueue(cudaStream_t s, std::function<void()> work) {
  const Lock held = lock();
  push(s, {std::move(work)});
}
bool on_device(const void* p, std::size_t bytes) {
  const Lock held = lock();
  return memory().holds(p, bytes);
}

cudaError_t allow_shared(const void* kernel, int bytes) {
  const Lock held = lock();
  ++shared_allowed();
  if (static_cast<std::size_t>(bytes) > most_shared()) return cudaErrorInvalidValue;
  allowed_shared()[kernel] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

cudaError_t enqueue(const cudaLaunchConfig_t& c, const void* kernel, std::function<void()> body) {
  const std::size_t threads = std::size_t{c.blockDim.x} * c.blockDim.y * c.blockDim.z;
  const std::size_t cluster = c.numAttrs > 0 ? c.attrs[0].val.clusterDim.x : 1;
  if (cluster > 1 && (capability() < 9 || c.gridDim.x % cluster != 0)) return cudaErrorInvalidConfiguration;
  const bool grid = c.gridDim.x > 0 && c.gridDim.y > 0 && c.gridDim.z > 0 && c.gridDim.x <= 0x7fffffffu &&
                    c.gridDim.y <= 65535 && c.gridDim.z <= 65535;
  if (!grid || threads == 0 || threads > 1024) return cudaErrorInvalidConfiguration;
  const Lock held = lock();
  const std::size_t most = std::max<std::size_t>(48 << 10, allowed_shared()[kernel]);
  if (c.dynamicSmemBytes > std::min(most, most_shared())) return cudaErrorInvalidValue;
  push(c.stream, {[=, how = Launch{c.gridDim, c.blockDim, c.dynamicSmemBytes, cluster},
                   body = std::move(body)] { run_blocks(how, body); }});
  return cudaSuccess;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return "invalid argument";
  }
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {"CUDA on a CPU", capability(), 0};
  int count = 0;
  cudaGetDeviceCount(&count);
  return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t* c) {
  *clusters = the_multiprocessors / static_cast<int>(c->attrs[0].val.clusterDim.x);
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = Memory::kSpace;
  *free = *total - the_used;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  const Lock held = lock();
  *p = memory().take(bytes);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* p) {
  Lock held = lock();
  wait_for_device(held);
  return memory().give_back(p) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  const Lock held = lock();
  *p = ::operator new(bytes);
  pinned()[static_cast<std::byte*>(*p)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  Lock held = lock();
  wait_for_device(held);
  pinned().erase(static_cast<std::byte*>(p));
  ::operator delete(p);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, s);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t s) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (to_pitch < width || from_pitch < width) return cudaErrorInvalidValue;
  const bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
  const std::size_t to_bytes = to_pitch * (height - 1) + width,
                    from_bytes = from_pitch * (height - 1) + width;
  Lock held = lock();
  if (to_device ? !memory().holds(to, to_bytes) : memory().reserved(to))
    throw Fault("a copy to memory of the wrong kind");
  if (from_device ? !memory().holds(from, from_bytes) : memory().reserved(from))
    throw Fault("a copy from memory of the wrong kind");
  push(s, {[=] {
         for (std::size_t r = 0; r < height; ++r)
           std::memcpy(static_cast<std::byte*>(to) + r * to_pitch,
                       static_cast<const std::byte*>(from) + r * from_pitch, width);
       }});
  // Memory of the host is read when the copy runs. CUDA does not promise an earlier time, even for pageable
  // memory.
  if (kind == cudaMemcpyDeviceToHost && !is_pinned(to)) drain(held, s);
  return cudaSuccess;
}
