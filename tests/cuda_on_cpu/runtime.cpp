// Memory, the queue and launches. Device memory is there only while queued work runs: a host that touches it
// dies at once. Every allocation is followed by bytes that must not change.
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <map>

#include "tests/cuda_on_cpu/fibers.h"

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kSpace = std::size_t{1} << 36, kGuard = 256, kAlign = 256;
constexpr unsigned char kUntouched = 0xa7, kFresh = 0xff;  // fresh memory reads as NaN
constexpr std::size_t kMostFresh = 32 << 20;  // larger allocations are left zero, so that they stay virtual

class Memory {
 public:
  Memory()
      : base_(static_cast<std::byte*>(
            mmap(nullptr, kSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}

  void* take(std::size_t bytes) {
    const std::size_t all = (bytes + kGuard + kAlign - 1) / kAlign * kAlign;
    if (used_ + all > kSpace) return nullptr;
    std::byte* p = base_ + used_;
    used_ += all;
    const Open open(*this);
    if (bytes <= kMostFresh) std::memset(p, kFresh, bytes);
    std::memset(p + bytes, kUntouched, kGuard);
    live_[p] = bytes;
    return p;
  }
  bool give_back(void* p) {
    const auto it = live_.find(static_cast<std::byte*>(p));
    if (it == live_.end()) return false;
    live_.erase(it);
    if (live_.empty()) {
      madvise(base_, pages(), MADV_DONTNEED);
      used_ = 0;
    }
    return true;
  }
  bool holds(const void* p, std::size_t bytes) const {
    auto* at = static_cast<std::byte*>(const_cast<void*>(p));
    auto it = live_.upper_bound(at);
    if (it == live_.begin()) return false;
    --it;
    return at + bytes <= it->first + it->second;
  }
  bool reserved(const void* p) const { return p >= base_ && p < base_ + kSpace; }

  // Makes device memory readable and writable while it lives.
  class Open {
   public:
    explicit Open(Memory& m) : memory_(m) { mprotect(m.base_, m.pages(), PROT_READ | PROT_WRITE); }
    ~Open() { mprotect(memory_.base_, memory_.pages(), PROT_NONE); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    Memory& memory_;
  };
  void check_guards() const {
    for (const auto& [p, bytes] : live_)
      if (!std::all_of(p + bytes, p + bytes + kGuard, [](std::byte b) { return b == std::byte{kUntouched}; }))
        throw Fault("a write beyond device memory of " + std::to_string(bytes) + " bytes");
  }

 private:
  std::size_t pages() const { return (used_ + 4095) / 4096 * 4096; }
  std::byte* base_;
  std::size_t used_ = 0;
  std::map<std::byte*, std::size_t> live_;
};

Memory& memory() {
  static Memory m;
  return m;
}
std::deque<std::function<void()>>& queue() {
  static std::deque<std::function<void()>> q;
  return q;
}
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

// All that was queued happens now.
cudaError_t drain() {
  if (queue().empty()) return cudaSuccess;
  const Memory::Open open(memory());
  while (!queue().empty()) {
    const auto work = std::move(queue().front());
    queue().pop_front();
    try {
      work();
      memory().check_guards();
    } catch (...) {
      queue().clear();
      throw;
    }
  }
  return cudaSuccess;
}

}  // namespace

void enqueue(std::function<void()> work) { queue().push_back(std::move(work)); }
bool on_device(const void* p, std::size_t bytes) { return memory().holds(p, bytes); }

cudaError_t allow_shared(const void* kernel, int bytes) {
  if (static_cast<std::size_t>(bytes) > kMostShared) return cudaErrorInvalidValue;
  allowed_shared()[kernel] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

cudaError_t enqueue(const cudaLaunchConfig_t& c, const void* kernel, std::function<void()> body) {
  const std::size_t threads = std::size_t{c.blockDim.x} * c.blockDim.y * c.blockDim.z;
  const bool grid = c.gridDim.x > 0 && c.gridDim.y > 0 && c.gridDim.z > 0 && c.gridDim.x <= 0x7fffffffu &&
                    c.gridDim.y <= 65535 && c.gridDim.z <= 65535;
  if (!grid || threads == 0 || threads > 1024) return cudaErrorInvalidConfiguration;
  const std::size_t most = std::max<std::size_t>(48 << 10, allowed_shared()[kernel]);
  if (c.dynamicSmemBytes > most) return cudaErrorInvalidValue;
  enqueue([=, body = std::move(body)] { run_blocks(c.gridDim, c.blockDim, c.dynamicSmemBytes, body); });
  return cudaSuccess;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

struct CudaOnCpuStream {};
struct CudaOnCpuEvent {};

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
    default:
      return "invalid argument";
  }
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {"CUDA on a CPU", 8, 0};
  return cudaSetDevice(device);
}
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return *free = *total = kSpace, cudaSuccess;
}
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  *p = memory().take(bytes);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* p) {
  drain();
  return memory().give_back(p) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  *p = ::operator new(bytes);
  pinned()[static_cast<std::byte*>(*p)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  drain();
  pinned().erase(static_cast<std::byte*>(p));
  ::operator delete(p);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  *s = new CudaOnCpuStream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return drain(); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = new CudaOnCpuEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return drain(); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, s);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (to_pitch < width || from_pitch < width) return cudaErrorInvalidValue;
  const bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
  const std::size_t to_bytes = to_pitch * (height - 1) + width,
                    from_bytes = from_pitch * (height - 1) + width;
  if (to_device ? !on_device(to, to_bytes) : memory().reserved(to))
    throw Fault("a copy to memory of the wrong kind");
  if (from_device ? !on_device(from, from_bytes) : memory().reserved(from))
    throw Fault("a copy from memory of the wrong kind");
  enqueue([=] {
    for (std::size_t r = 0; r < height; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * to_pitch,
                  static_cast<const std::byte*>(from) + r * from_pitch, width);
  });
  // Pageable memory is read before the call returns; pinned memory when its turn comes.
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) drain();
  if (kind == cudaMemcpyDeviceToHost && !is_pinned(to)) drain();
  return cudaSuccess;
}
