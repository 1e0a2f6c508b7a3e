// Replaces CUDA's header on machines that have neither a GPU nor CUDA: the same .cu files are compiled for
// the host with this header. All threads of a block run as fibers of one host thread, in an order that tests
// choose; blocks run one after another. Launches and copies are delayed until the host waits for them, the
// latest time that CUDA allows. An error in a kernel becomes a Fault.
//
// Stricter than a GPU: a block consists of full warps, no thread may exit before a barrier that others reach,
// shared memory is limited to the smallest GPU's, and the host cannot access device memory.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>

// ---- the language
#define __global__
#define __device__
#define __host__
#define __shared__  // used only in shared_memory(), whose array is block_memory
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace ft::cuda {
extern unsigned char block_memory[];  // memory that kernels declare as extern __shared__
}

namespace cuda_on_cpu {

struct Fault : std::runtime_error {
  using runtime_error::runtime_error;
};
enum class Order { forward, backward, shuffled };
void set_order(Order);  // of threads between barriers, and of blocks

// The GPU's compute capability, 8.0 or 9.0, which decides how much shared memory a block may have.
void set_capability(int major);
int capability();
constexpr int kGreatestPriority = -5;  // of a stream; 0 is the lowest priority
void set_multiprocessors(int);         // number on the GPU
// Sets the bytes that the driver reports as used, in addition to allocations; 0 at first.
void set_used(std::size_t bytes);

enum class Meeting : std::uint8_t { sync, shuffle, vote, product, matrices };
// The lanes of `mask` wait for each other and exchange values: exchange() returns the value of lane `from`,
// exchange_all() fills in every lane's value.
std::uint64_t exchange(Meeting, unsigned mask, std::uint64_t mine, int from);
void exchange_all(Meeting, unsigned mask, std::uint64_t mine, std::uint64_t (&all)[32]);
void block_barrier();
int block_any(int mine);
// Named barriers, 1 to 15, for `threads` arrivals in all: threads in meet_at() wait for the others, threads
// in arrive_at() go on.
void arrive_at(int barrier, int threads);
void meet_at(int barrier, int threads);
int lane();
// The instructions of engine/cuda/kernels/mma.cuh; T: bf16 or f16.
template <class T>
void mma(T, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);
void mma_tf32(float (&d)[4], const float (&a)[4], float b0, float b1);
float to_tf32(float);
template <class T>
unsigned pair_of(T, float low, float high);
void load_matrices(unsigned (&m)[4], unsigned row, bool transposed);
// Asynchronous copies. A copy is done as late as possible, when its thread waits for it, so that a missing
// wait shows. In Order::backward it is done at once, so that overwriting data that is still read shows.
void copy(unsigned to, const void* from, unsigned bytes, bool there);
void commit_copies();
void wait_for_copies(int under_way);
// Products of warpgroups (engine/cuda/kernels/wgmma.cuh). d has n rows of 4; a_tile and b_tile are
// descriptors. A product is computed as late as possible, when its thread waits for it; in Order::backward at
// once.
template <class T>
void multiply_group(T, float (*d)[4], int n, const unsigned (&a)[4], std::uint64_t b_tile, bool b_down,
                    bool add);
template <class T>
void multiply_group(T, float (*d)[4], int n, std::uint64_t a_tile, std::uint64_t b_tile, bool a_down,
                    bool b_down, bool add);
void commit_products();
void wait_for_products(int under_way);
void show_copies_to_products();
// Barriers in shared memory, and boxes that are fetched into it (engine/cuda/kernels/tma.cuh). A box is
// received as late as possible, when no thread can go on without it; in Order::backward at once; in
// Order::shuffled one or the other at random.
void make_barrier(unsigned barrier, int arrivals);
void show_barriers();
void announce(unsigned barrier, unsigned bytes);  // also arrives at the barrier
void arrive_in(int rank, unsigned barrier);
void wait_for_phase(unsigned barrier, unsigned parity);
void fetch_box(unsigned to, const std::uint64_t* map, int row, int column, unsigned barrier, bool for_all);
// Clusters: blocks that run together, each with its own shared memory.
int cluster_rank();
void meet_cluster();
// `accesses`: how often eight lanes accessed shared memory together, for matrices and copies of 16 bytes.
// `conflicts`: how often they had to repeat an access because two lanes wanted different words of one bank.
// Counts all blocks since the last reset.
struct SharedTraffic {
  std::int64_t accesses, conflicts;
};
SharedTraffic shared_traffic();
void reset_shared_traffic();

template <class T>
T shuffle(unsigned mask, T v, int from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof v);
  bits = exchange(Meeting::shuffle, mask, bits, from);
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

}  // namespace cuda_on_cpu

inline void __syncthreads() { cuda_on_cpu::block_barrier(); }
inline int __syncthreads_or(int p) { return cuda_on_cpu::block_any(p); }
inline void __syncwarp(unsigned mask = ~0u) {
  cuda_on_cpu::exchange(cuda_on_cpu::Meeting::sync, mask, 0, cuda_on_cpu::lane());
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int with) {
  return cuda_on_cpu::shuffle(mask, v, cuda_on_cpu::lane() ^ with);
}
template <class T>
T __shfl_sync(unsigned mask, T v, int from) {
  return cuda_on_cpu::shuffle(mask, v, from & 31);
}
inline unsigned __ballot_sync(unsigned mask, int p) {
  std::uint64_t all[32];
  cuda_on_cpu::exchange_all(cuda_on_cpu::Meeting::vote, mask, p != 0, all);
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i) votes |= (mask >> i & 1) && all[i] ? 1u << i : 0;
  return votes;
}
inline int __ffs(int x) { return __builtin_ffs(x); }

// ---- the runtime
#define CUDART_VERSION 13000
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
};
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError();

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };
using cudaStream_t = struct CudaOnCpuStream*;
using cudaEvent_t = struct CudaOnCpuEvent*;
struct cudaDeviceProp {
  char name[256];
  int major, minor;
};
enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1
};

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult*);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int device);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMalloc(void** p, std::size_t bytes);
cudaError_t cudaFree(void* p);
cudaError_t cudaMallocHost(void** p, std::size_t bytes);
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t*, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind, cudaStream_t);

enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    dim3 clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace cuda_on_cpu {
cudaError_t enqueue(const cudaLaunchConfig_t&, const void* kernel, std::function<void()> body);
cudaError_t allow_shared(const void* kernel, int bytes);
// Queues work of the stand-in for cuBLASLt on a stream.
void enqueue(cudaStream_t, std::function<void()> work);
// Returns true if [p, p + bytes) is device memory that is allocated and not freed.
bool on_device(const void* p, std::size_t bytes);
}  // namespace cuda_on_cpu

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel, const cudaLaunchConfig_t*);
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, Kernel* kernel, const cudaLaunchConfig_t* c) {
  return cudaOccupancyMaxActiveClusters(clusters, reinterpret_cast<const void*>(kernel), c);
}
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* c, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  return cuda_on_cpu::enqueue(*c, reinterpret_cast<const void*>(kernel),
                              [=] { kernel(static_cast<Parameters>(arguments)...); });
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int bytes) {
  return cuda_on_cpu::allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}
