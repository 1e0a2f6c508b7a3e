// Boxes, barriers and clusters of the stand-in for a GPU, and mistakes that it finds.
#include "engine/cuda/kernels/tma.cuh"
#include "engine/cuda/kernels/wgmma.cuh"
#include "tests/engine/cuda/on_both.h"

namespace ft::cuda {
namespace {

constexpr int kSide = 64, kStages = 2, kSteps = 5, kDepthOfAll = kSteps * kSide - 24;
constexpr unsigned kBarriers = kStages * 2 * kPanelBytes,
                   kStagesAndBarriers = kBarriers + kStages * 16 + kSpare;
enum class Mistake {
  nothing,
  other_parity,       // waits for the previous phase
  no_wait_for_boxes,  // before products
  no_wait_to_refill,  // before a stage is refilled
  early_release,      // of a stage that products still read
  fewer_bytes,        // fewer bytes are announced than arrive
  unshown_barriers,
  no_barriers,
  written_barrier,
  odd_place,     // of a box
  other_swizzle  // reads rows as if they were not swizzled
};

struct Stages {
  unsigned begin;
  __device__ unsigned a(int stage) const { return begin + static_cast<unsigned>(stage) * 2 * kPanelBytes; }
  __device__ unsigned b(int stage) const { return a(stage) + kPanelBytes; }
  __device__ unsigned full(int stage) const { return begin + kBarriers + static_cast<unsigned>(stage) * 16; }
  __device__ unsigned read(int stage) const { return full(stage) + 8; }
};

__device__ void fetches(const Stages& stages, const TensorMap& a, const TensorMap& b, Mistake mistake) {
  for (int step = 0; step < kSteps; ++step) {
    const int stage = step % kStages;
    if (mistake != Mistake::no_wait_to_refill)
      wait_for_phase(stages.read(stage), static_cast<unsigned>(step / kStages % 2 ^ 1));
    announce(stages.full(stage), 2 * kPanelBytes - (mistake == Mistake::fewer_bytes ? 16 : 0));
    fetch_box(stages.a(stage) + (mistake == Mistake::odd_place ? 128 : 0), a, 0, step * kSide,
              stages.full(stage));
    fetch_box(stages.b(stage), b, 0, step * kSide, stages.full(stage));
  }
}

__device__ void sums_up(float* y, const Stages& stages, Mistake mistake) {
  float d[kSide / 8][4] = {};
  const std::uint64_t plain = mistake == Mistake::other_swizzle ? std::uint64_t{1} << 62 : 0;
  for (int step = 0; step < kSteps; ++step) {
    const int stage = step % kStages;
    const auto parity = static_cast<unsigned>(step / kStages % 2);
    const auto release = [&] {
      if (threadIdx.x % 32 == 0) arrive(stages.read(stage));
    };
    if (mistake != Mistake::no_wait_for_boxes)
      wait_for_phase(stages.full(stage), mistake == Mistake::other_parity ? parity ^ 1 : parity);
    order_registers();
    for (int k = 0; k < 4; ++k)
      multiply_group(bf16{}, d, (operand(stages.a(stage)) + right_by(k)) ^ plain,
                     operand(stages.b(stage)) + right_by(k), true);
    commit_products();
    if (mistake == Mistake::early_release) release();
    wait_for_products<0>();
    if (mistake != Mistake::early_release) release();
  }
  settle(d);
  const Lane lane;
  const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane.g;
  for (int i = 0; i < kSide / 2; ++i)
    y[(row + i % 4 / 2 * 8) * kSide + i / 4 * 8 + 2 * lane.t + i % 2] = d[i / 4][i % 4];
}

// Computes y (64, 64) = a b^T.
__global__ void multiplies_boxes(float* y, const __grid_constant__ TensorMap a,
                                 const __grid_constant__ TensorMap b, Mistake mistake) {
  const Stages stages{shared_panels()};
  if (threadIdx.x == 0 && mistake != Mistake::no_barriers) {
    for (int stage = 0; stage < kStages; ++stage) {
      make_barrier(stages.full(stage), 1);
      make_barrier(stages.read(stage), 4);
    }
    if (mistake != Mistake::unshown_barriers) show_barriers();
    if (mistake == Mistake::written_barrier) *static_cast<float*>(shared_pointer(stages.full(0))) = 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) fetches(stages, a, b, mistake);
  if (threadIdx.x >= kGroupThreads) sums_up(y, stages, mistake);
}

class Boxes : public testing::Test {
 protected:
  Boxes() : a(kSide, kDepthOfAll, DType::bf16, 8), b(kSide, kDepthOfAll, DType::bf16, 0), y(kSide * kSide) {
    cuda_on_cpu::set_capability(9);
    a.fill(1, 2);
    b.fill(2, 3);
    for (std::int64_t row = 0; row < kSide; ++row)
      for (std::int64_t column = 0; column < kSide; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < kDepthOfAll; ++k) sum += a.host.get(row, k) * b.host.get(column, k);
        expected.push_back(static_cast<float>(sum));
      }
  }
  ~Boxes() override {
    cuda_on_cpu::set_capability(8);
    cuda_on_cpu::set_order(Order::forward);
  }
  std::vector<float> product(Order order, Mistake mistake) {
    cuda_on_cpu::set_order(order);
    const Stream s;
    launch("test", {s, dim3(1), 2 * kGroupThreads, kStagesAndBarriers}, multiplies_boxes, y.get(),
           map_of(a.tensor, kSide), map_of(b.tensor, kSide), mistake);
    return y.values(s);
  }
  // Returns the fault found in one of the orders, "wrong numbers" if the result is wrong, or "nothing". Tries
  // several times, because one of the orders is random.
  std::string found(Mistake mistake) {
    constexpr int kTimes = 20;
    for (int i = 0; i < kTimes; ++i)
      for (const Order order : kAllOrders) try {
          if (product(order, mistake) != expected) return "wrong numbers";
        } catch (const Fault& e) {
          return e.what();
        }
    return "nothing";
  }

  OnBoth a, b;
  Memory y;
  std::vector<float> expected;
};

TEST_F(Boxes, FeedProductsThroughStages) {
  for (const Order order : kAllOrders) EXPECT_EQ(product(order, Mistake::nothing), expected) << int(order);
  EXPECT_EQ(found(Mistake::nothing), "nothing");
}

TEST_F(Boxes, MistakesAreFound) {
  constexpr const char* kMore = "more have arrived at a barrier than it was made for (block 0,0,0)";
  EXPECT_EQ(found(Mistake::other_parity), kMore);
  EXPECT_EQ(found(Mistake::no_wait_for_boxes), kMore);
  EXPECT_EQ(found(Mistake::no_wait_to_refill), kMore);
  EXPECT_EQ(found(Mistake::early_release), "wrong numbers");
  EXPECT_EQ(found(Mistake::fewer_bytes), "deadlock: threads wait at different barriers (block 0,0,0)");
  EXPECT_EQ(found(Mistake::unshown_barriers), "a barrier that has not been shown (block 0,0,0)");
  EXPECT_EQ(found(Mistake::no_barriers), "a barrier that has not been made (block 0,0,0)");
  EXPECT_EQ(found(Mistake::written_barrier), "a barrier's memory has been written (block 0,0,0)");
  EXPECT_EQ(found(Mistake::odd_place), "a box to an address that is no multiple of 1024 bytes (block 0,0,0)");
  EXPECT_EQ(found(Mistake::other_swizzle), "a product's operand is not swizzled by 128 bytes (block 0,0,0)");
}

// The second block of two fetches a box for both.
enum class Sending { rightly, by_a_block_that_does_not_wait, with_no_meeting_at_first };
__global__ void sends(float* y, const __grid_constant__ TensorMap map, Sending how) {
  const Stages stages{shared_panels()};
  if (threadIdx.x == 0) {
    make_barrier(stages.full(0), 1);
    make_barrier(stages.read(0), 2);
    show_barriers();
  }
  how == Sending::with_no_meeting_at_first ? __syncthreads() : meet_cluster();
  if (threadIdx.x == 0) {
    announce(stages.full(0), kPanelBytes);
    if (cluster_rank() == 1) fetch_box_for_all(stages.a(0), map, 0, 0, stages.full(0));
  }
  if (how == Sending::by_a_block_that_does_not_wait && cluster_rank() == 1) return;
  if (threadIdx.x >= 32) {
    wait_for_phase(stages.full(0), 0);
    const auto* first = static_cast<const bf16*>(shared_pointer(stages.a(0)));
    if (threadIdx.x % 32 == 0) {
      y[cluster_rank()] = to_float(*first);
      for (int rank = 0; rank < 2; ++rank) arrive_in(rank, stages.read(0));
    }
    wait_for_phase(stages.read(0), 0);
  }
  meet_cluster();
}

TEST_F(Boxes, ComeToAllBlocksOfACluster) {
  const auto found = [&](Sending how) -> std::string {
    for (const Order order : kAllOrders) try {
        cuda_on_cpu::set_order(order);
        const Stream s;
        launch("test", {s, dim3(2), 64, kStagesAndBarriers, 2}, sends, y.get(), map_of(a.tensor, kSide), how);
        const std::vector<float> got = y.values(s);
        const auto first = static_cast<float>(a.host.get(0, 0));
        if (got[0] != first || got[1] != first) return "wrong numbers";
      } catch (const Fault& e) {
        return e.what();
      }
    return "nothing";
  };
  EXPECT_EQ(found(Sending::rightly), "nothing");
  EXPECT_NE(found(Sending::by_a_block_that_does_not_wait), "nothing");
  EXPECT_EQ(found(Sending::with_no_meeting_at_first), "a barrier that has not been made (block 1,0,0)");
}

}  // namespace
}  // namespace ft::cuda
