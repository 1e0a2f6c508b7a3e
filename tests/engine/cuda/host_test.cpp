// The host code around kernels: it asks CUDA for more shared memory once, and does not sleep during short
// waits.
#include <sys/resource.h>

#include "engine/cuda/gpu.h"
#include "tests/cuda_on_cpu/streams.h"
#include "tests/engine/cuda/planted.h"

namespace ft::cuda {
namespace {

template <int number>
__global__ void takes_memory(float* y) {
  float* s = shared_memory<Numbers<16384>>().at;
  s[threadIdx.x] = static_cast<float>(number);
  y[threadIdx.x] = s[threadIdx.x];
}

TEST(Launches, SharedMemoryIsAllowedOncePerKernelAndGpu) {
  const auto launches = [](int gpu, std::size_t bytes, auto kernel) {
    cudaSetDevice(gpu);
    const Stream stream;
    const Memory y(32);
    const int before = cuda_on_cpu::shared_allowed();
    for (int i = 0; i < 3; ++i) launch("test", {stream, dim3(1), 32, bytes}, kernel, y.get());
    cudaStreamSynchronize(stream);
    const int asked = cuda_on_cpu::shared_allowed() - before;
    cudaSetDevice(0);
    return asked;
  };
  EXPECT_EQ(launches(0, 64 << 10, takes_memory<1>), 1);
  EXPECT_EQ(launches(0, 64 << 10, takes_memory<1>), 0);
  EXPECT_EQ(launches(0, 70 << 10, takes_memory<1>), 1);
  EXPECT_EQ(launches(0, 64 << 10, takes_memory<1>), 0);
  EXPECT_EQ(launches(0, 64 << 10, takes_memory<2>), 1);
  EXPECT_EQ(launches(1, 64 << 10, takes_memory<1>), 1);
  EXPECT_THROW(launches(0, 300 << 10, takes_memory<1>), UserError);
  EXPECT_THROW(launches(0, 300 << 10, takes_memory<1>), UserError);
}

TEST(Waits, ThatAreShortDoNotSleep) {
  Gpu gpu(0, 8192);
  int looks = 0;
  gpu.while_waiting([&] { ++looks; });
  {
    const cuda_on_cpu::Lock held = cuda_on_cpu::lock();
    cuda_on_cpu::push(gpu.stream(), {[] {}, [&] { return looks >= 200; }});
  }
  const auto slept = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;  // sleeps; yielding is not counted
  };
  const auto before = slept();
  gpu.synchronize();
  EXPECT_LT(slept() - before, 50);
  EXPECT_GE(looks, 200);
}

}  // namespace
}  // namespace ft::cuda
