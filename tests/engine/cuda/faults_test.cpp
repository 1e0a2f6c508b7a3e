// Mistakes planted in kernels are found by the host's stand-in for a GPU.
#include "tests/cuda_on_cpu/nccl.h"
#include "tests/engine/cuda/both.h"
#include "tests/engine/cuda/planted.h"

namespace ft::cuda {

void set_order(int order) { cuda_on_cpu::set_order(static_cast<cuda_on_cpu::Order>(order)); }
std::vector<int> capabilities() { return {8, 9}; }
void set_capability(int major) { cuda_on_cpu::set_capability(major); }
bool use_nccl() {
  cuda_on_cpu::nccl_installed(true);
  return true;
}

namespace {

__global__ void forgets_a_barrier(float* y, bool barrier) {
  float* s = shared_memory<Numbers<64>>().at;
  s[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (barrier) __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}

TEST(Faults, ARaceGivesOtherNumbersInAnotherOrder) {
  const auto right = in_each_order(forgets_a_barrier, true), wrong = in_each_order(forgets_a_barrier, false);
  EXPECT_TRUE(same(right[0], right[1]) && same(right[0], right[2]));
  EXPECT_FALSE(same(wrong[0], wrong[1]));
  EXPECT_FALSE(same(wrong[0], wrong[2]));
}

__global__ void races_between_warps(float* y) {
  float* s = shared_memory<Numbers<64>>().at;
  const float sum = warp_sum(static_cast<float>(threadIdx.x));
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
  y[threadIdx.x] = s[0] + s[1];  // no barrier before the read
}
__global__ void races_between_blocks(float* y) { y[threadIdx.x] = static_cast<float>(blockIdx.x); }

__global__ void writes_what_is_still_read(float* y, bool barrier) {
  float* s = shared_memory<Numbers<64>>().at;
  s[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  const float read = s[63 - threadIdx.x], sum = warp_sum(read);
  if (barrier) __syncthreads();
  s[threadIdx.x] = -1;
  y[threadIdx.x] = read + sum;
}

TEST(Faults, AWarpThatRunsAheadOfAnother) {
  const auto right = in_each_order(writes_what_is_still_read, true),
             wrong = in_each_order(writes_what_is_still_read, false);
  EXPECT_TRUE(same(right[0], right[1]) && same(right[0], right[2]));
  EXPECT_FALSE(same(right[0], wrong[1]));
}

TEST(Faults, RacesBetweenWarpsAndBlocks) {
  const auto warps = in_each_order(races_between_warps);
  EXPECT_FALSE(same(warps[0], warps[1]));
  std::vector<std::vector<float>> blocks;
  for (const Order order : {Order::forward, Order::backward}) {
    cuda_on_cpu::set_order(order);
    const Stream stream;
    const Memory y(64);
    launch("test", {stream, dim3(3), 64}, races_between_blocks, y.get());
    blocks.push_back(y.values(stream));
  }
  cuda_on_cpu::set_order(Order::forward);
  EXPECT_FALSE(same(blocks[0], blocks[1]));
}

__global__ void reads_fresh_memory(float* y) {
  y[threadIdx.x] = shared_memory<Numbers<64>>().at[threadIdx.x];
}

TEST(Faults, FreshMemoryIsNoNumberAndSharedMemoryIsPoisoned) {
  const Stream stream;
  const Memory fresh(3), y(64);
  for (const float v : fresh.values(stream)) EXPECT_TRUE(std::isnan(v));
  launch("test", {stream, dim3(1), 64, sizeof(Numbers<64>)}, reads_fresh_memory, y.get());
  for (const float v : y.values(stream)) EXPECT_EQ(v, __builtin_bit_cast(float, 0xcdcdcdcdu));
}

__global__ void leaves_before_a_barrier(float* y) {
  if (threadIdx.x < 10) return;
  __syncthreads();
  y[0] = 1;
}
__global__ void half_a_warp_shuffles(float* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
}
__global__ void waits_in_two_places(float* y) {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    y[0] = warp_sum(1.0f);
}
__global__ void is_not_in_its_mask(float* y) { y[0] = __shfl_sync(1u, 1.0f, 0); }
__global__ void asks_outside_the_mask(float* y) {
  if (threadIdx.x < 16) y[0] = __shfl_sync(0xffffu, 1.0f, 20);
}
__global__ void mixes_masks(float* y) {
  y[0] = __shfl_sync(threadIdx.x % 32 < 8 ? ~0u : 0xffffff00u, 1.0f, 31);
}
__global__ void overruns_shared_memory(float* y) {
  shared_memory<Numbers<65>>().at[threadIdx.x + 1] = 1;
  y[0] = 1;
}
__global__ void overruns_device_memory(float* y) { y[threadIdx.x + 1] = 1; }

TEST(Faults, DivergentBarriers) {
  EXPECT_EQ(fault_of(0, 64, leaves_before_a_barrier),
            "__syncthreads is reached by some threads after others have returned (block 0,0,0)");
  EXPECT_EQ(fault_of(0, 64, half_a_warp_shuffles),
            "deadlock: threads wait at different barriers (block 0,0,0)");
  EXPECT_EQ(fault_of(0, 64, waits_in_two_places),
            "deadlock: threads wait at different barriers (block 0,0,0)");
}

TEST(Faults, WrongMasks) {
  EXPECT_EQ(fault_of(0, 64, is_not_in_its_mask),
            "a lane is not in the mask of its own shuffle, vote or __syncwarp (block 0,0,0)");
  EXPECT_EQ(fault_of(0, 64, asks_outside_the_mask),
            "a shuffle takes the value of a lane outside its mask (block 0,0,0)");
  EXPECT_EQ(fault_of(0, 64, mixes_masks),
            "the lanes of a warp meet in different calls or with different masks (block 0,0,0)");
}

TEST(Faults, Overruns) {
  EXPECT_EQ(fault_of(sizeof(Numbers<64>), 64, overruns_shared_memory),
            "a write beyond the shared memory that the launch asked for (block 0,0,0)");
  EXPECT_EQ(fault_of(0, 64, overruns_device_memory), "a write beyond device memory of 256 bytes");
}

TEST(Faults, BlocksAreCompleteWarps) {
  EXPECT_EQ(fault_of(0, 40, races_between_blocks), "a block of 40 threads is not whole warps");
}

TEST(Faults, LaunchesBeyondTheLimits) {
  const Stream stream;
  const Memory y(64);
  const auto refused = [&](dim3 grid, unsigned threads, std::size_t shared) {
    EXPECT_THROW(launch("test", {stream, grid, threads, shared}, races_between_blocks, y.get()), UserError);
  };
  refused(dim3(0), 64, 0);
  refused(dim3(1, 65536), 64, 0);
  refused(dim3(1), 2048, 0);
  refused(dim3(1), 64, 100 << 10);
}

TEST(FaultsDeathTest, TheHostCannotTouchDeviceMemory) {
  const Memory y(64);
  EXPECT_DEATH(y.get()[0] = 1, "");
  EXPECT_DEATH(std::printf("%f", static_cast<double>(y.get()[0])), "");
}

TEST(Faults, CopiesOfTheWrongKind) {
  const Stream stream;
  const Memory y(64);
  std::vector<float> host(128);
  EXPECT_THROW(cudaMemcpyAsync(host.data(), y.get(), 4, cudaMemcpyHostToDevice, stream), Fault);
  EXPECT_THROW(cudaMemcpyAsync(y.get(), host.data(), 512, cudaMemcpyHostToDevice, stream), Fault);
  EXPECT_THROW(cudaMemcpyAsync(y.get(), host.data(), 4, cudaMemcpyDeviceToDevice, stream), Fault);
}

TEST(Memory, OfTheDriverIsTheUsedMemoryThatFtDidNotAllocate) {
  constexpr std::int64_t kMiB = 1 << 20;
  const auto ops = make_cuda_ops(0, kSmall);
  const Buffer ours = ops->allocate(300 * kMiB);
  const auto with = [&](std::int64_t beside) {
    cuda_on_cpu::set_used(static_cast<std::size_t>(ops->workspace() + 300 * kMiB + beside));
    return ops->driver_memory();
  };
  EXPECT_EQ(with(500 * kMiB), 500 * kMiB);
  EXPECT_EQ(with(10000 * kMiB), CudaWorkspace::kDriver);  // used by another program
  cuda_on_cpu::set_used(0);
  EXPECT_EQ(ops->driver_memory(), 0);
}

TEST(Faults, AMissingGpuIsAUserError) {
  try {
    make_cuda_ops(4, kSmall);
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::hardware);
    EXPECT_STREQ(e.what(), "device cuda:4: this machine has 4 GPUs, counted from 0");
  }
}

}  // namespace
}  // namespace ft::cuda
