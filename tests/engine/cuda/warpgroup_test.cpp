// Products of warpgroups and named barriers of the stand-in for a GPU, and mistakes that it finds.
#include "engine/cuda/kernels/attention_wgmma.cuh"

#include "tests/engine/cuda/both.h"
#include "tests/engine/cuda/planted.h"

namespace ft::cuda {
namespace {

constexpr int kN = 64;
constexpr unsigned kBoth = 2 * kPanelBytes;
enum class How { panels, registers, down };  // a b^T, twice; a b
enum class Planted { nothing, unshown_copies, no_wait, refilled };

// Computes y (64, 64) = a b^T or a b in one warpgroup; a and b are rows 0 to 63 of two panels.
__global__ void multiplies(float* y, const bf16* a, const bf16* b, How how, Planted planted) {
  const unsigned left = shared_panels(), right = left + kPanelBytes;
  View view{};
  view.data = const_cast<bf16*>(a);
  view.stride = kN;
  fetch_group<kN>(left, Head<bf16>{Rows<bf16>(view), 0, kN, true}, 0, kN);
  view.data = const_cast<bf16*>(b);
  fetch_group<kN>(right, Head<bf16>{Rows<bf16>(view), 0, kN, true}, 0, kN);
  commit_copies();
  wait_for_copies<0>();
  if (planted != Planted::unshown_copies) show_copies_to_products();
  __syncthreads();
  float d[kN / 8][4] = {};
  const InRegisters<kN> held(left);
  order_registers();
  if (how == How::panels) begin_scores<bf16>(d, InPanels<kN>{left}, right);
  if (how == How::registers) begin_scores<bf16>(d, held, right);
  if (how == How::down) begin_sum<bf16>(d, held.of, right);
  commit_products();
  if (planted == Planted::refilled) {
    __syncthreads();
    fetch_group<kN>(right, Head<bf16>{Rows<bf16>(view), 0, kN, true}, kN, kN);  // zeros
    commit_copies();
    wait_for_copies<0>();
    show_copies_to_products();
    __syncthreads();
  }
  if (planted != Planted::no_wait) wait_for_products<0>();
  settle(d);
  const Lane lane;
  const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane.g;
  for (int i = 0; i < kN / 2; ++i)
    y[(row + i % 4 / 2 * 8) * kN + i / 4 * 8 + 2 * lane.t + i % 2] = d[i / 4][i % 4];
}

// Uses small whole numbers, so that every sum is exact.
class WarpgroupProducts : public testing::Test {
 protected:
  WarpgroupProducts() : a(kN * kN / 2), b(kN * kN / 2), y(kN * kN) {
    cuda_on_cpu::set_capability(9);
    for (int i = 0; i < kN * kN; ++i) {
      left.emplace_back();
      from_float(left.back(), static_cast<float>((i * 7 + i / kN) % 5 - 2));
      right.emplace_back();
      from_float(right.back(), static_cast<float>((i * 3 + i / kN * 2) % 7 - 3));
    }
    const Stream s;
    check(cudaMemcpyAsync(a.get(), left.data(), 2 * kN * kN, cudaMemcpyHostToDevice, s), "test");
    check(cudaMemcpyAsync(b.get(), right.data(), 2 * kN * kN, cudaMemcpyHostToDevice, s), "test");
    check(cudaStreamSynchronize(s), "test");
  }
  ~WarpgroupProducts() override {
    cuda_on_cpu::set_capability(8);
    cuda_on_cpu::set_order(Order::forward);
  }
  std::vector<float> product(Order order, How how, Planted planted = Planted::nothing) {
    cuda_on_cpu::set_order(order);
    const Stream s;
    launch("test", {s, dim3(1), kGroupThreads, kBoth + kSpare}, multiplies, y.get(),
           reinterpret_cast<const bf16*>(a.get()), reinterpret_cast<const bf16*>(b.get()), how, planted);
    return y.values(s);
  }
  std::vector<float> expected(How how) const {
    std::vector<float> want;
    for (std::size_t row = 0; row < kN; ++row)
      for (std::size_t column = 0; column < kN; ++column) {
        float sum = 0;
        for (std::size_t k = 0; k < kN; ++k)
          sum += to_float(left[row * kN + k]) *
                 to_float(right[how == How::down ? k * kN + column : column * kN + k]);
        want.push_back(sum);
      }
    return want;
  }

  std::vector<bf16> left, right;
  Memory a, b, y;
};

constexpr Order kAllOrders[] = {Order::forward, Order::backward, Order::shuffled};

TEST_F(WarpgroupProducts, OfOperandsInPanelsAndInRegisters) {
  for (const How how : {How::panels, How::registers, How::down})
    for (const Order order : kAllOrders) EXPECT_EQ(product(order, how), expected(how));
}

TEST_F(WarpgroupProducts, AreAvailableAfterAWaitOnly) {
  EXPECT_NE(product(Order::forward, How::panels, Planted::no_wait), expected(How::panels));
}

TEST_F(WarpgroupProducts, ReadTheirOperandsAsLateAsTheyMay) {
  EXPECT_NE(product(Order::forward, How::panels, Planted::refilled), expected(How::panels));
}

TEST_F(WarpgroupProducts, DoNotSeeCopiesBeforeAFence) {
  try {
    product(Order::forward, How::panels, Planted::unshown_copies);
    ADD_FAILURE() << "nothing found";
  } catch (const Fault& e) {
    EXPECT_STREQ(e.what(), "a product reads copies that no fence has shown it (block 0,0,0)");
  }
}

__global__ void multiplies_beyond(float*) {
  float d[8][4];
  begin_scores<bf16>(d, InPanels<kN>{0}, kPanelBytes);
  commit_products();
  wait_for_products<0>();
}
__global__ void multiplies_unswizzled(float*) {
  float d[8][4];
  multiply_group(bf16{}, d, 0, operand(0), false);
  commit_products();
  wait_for_products<0>();
}

TEST_F(WarpgroupProducts, WrongOperands) {
  EXPECT_EQ(fault_of(kPanelBytes, kGroupThreads, multiplies_beyond),
            "a product's operand beyond the block's shared memory (block 0,0,0)");
  EXPECT_EQ(fault_of(kPanelBytes, kGroupThreads, multiplies_unswizzled),
            "a product's operand is not swizzled by 128 bytes (block 0,0,0)");
}

TEST(WarpgroupAttention, IsForHopperAndShapesThatFitRegisters) {
  Attention c{};
  c.q.type = DType::bf16;
  c.group = 1;
  c.hopper = true;
  const auto uses = [&](int width, float dropout, std::int64_t distances) {
    c.width = width;
    c.dropout = dropout;
    c.bias = {distances > 0 ? &c : nullptr, DType::bf16, distances, 16, 16};
    return attention_uses_wgmma(c);
  };
  EXPECT_TRUE(uses(128, 0, 0) && uses(64, 0, 0) && uses(64, 0.1f, 0) && uses(64, 0.1f, 257) &&
              uses(8, 0, 257));
  EXPECT_FALSE(uses(72, 0.1f, 0) || uses(128, 0, 257) || uses(64, 0, 999) || uses(60, 0, 0) ||
               uses(256, 0, 0));
  c.group = 2;
  EXPECT_TRUE(uses(64, 0.1f, 0));
  EXPECT_FALSE(uses(64, 0.1f, 257));
  c.cap = 1;
  EXPECT_FALSE(uses(64, 0, 0));
  c.cap = 0, c.hopper = false;
  EXPECT_FALSE(uses(64, 0, 0));
}

// The first warp passes numbers to the second without waiting for it.
__global__ void hands_over(float* y, bool enough) {
  float* s = shared_memory<Numbers<64>>().at;
  const unsigned i = threadIdx.x;
  if (i < 32) {
    s[i] = static_cast<float>(i);
    enough ? arrive_at(1, 64) : static_cast<void>(0);
    y[i] = -1;
  } else {
    meet_at(1, 64);
    y[i] = s[63 - i];
  }
}
__global__ void disagrees(float* y) {
  arrive_at(1, threadIdx.x < 32 ? 64 : 96);
  y[0] = 0;
}
__global__ void has_no_such_barrier(float*) { arrive_at(16, 64); }

TEST(NamedBarriers, ReleaseTheWaitingWhenAllHaveArrived) {
  for (const std::vector<float>& y : in_each_order(hands_over, true))
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i < 32 ? -1 : static_cast<float>(63 - i));
}

TEST(NamedBarriers, MistakesAreFound) {
  EXPECT_EQ(fault_of(sizeof(Numbers<64>), 64, hands_over, false),
            "deadlock: threads wait at different barriers (block 0,0,0)");
  EXPECT_EQ(fault_of(0, 64, disagrees), "a named barrier of different numbers of threads (block 0,0,0)");
  EXPECT_EQ(fault_of(0, 64, has_no_such_barrier), "a named barrier that there is not (block 0,0,0)");
}

}  // namespace
}  // namespace ft::cuda
