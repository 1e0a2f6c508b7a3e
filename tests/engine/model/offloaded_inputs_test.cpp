// Inputs of blocks that leave the device and come back, through few tensors on it.
#include "engine/model/offloaded_inputs.h"

#include <gtest/gtest.h>

#include "engine/cpu/cpu_ops.h"
#include "tests/engine/model/late_depot.h"

namespace ft::test {
namespace {

constexpr std::int64_t kRoom = 1 << 16, kRows = 4, kColumns = 32;
constexpr std::size_t kBlocks = 7;

struct Pass {
  Pass() : saved(ops.allocate(kRoom), kRoom), scratch(ops.allocate(kRoom), kRoom), c{ops, saved, scratch} {
    depot.reserve(20 * Depot::kBlock);
    depot.open();
  }
  cpu::CpuOps ops{1};
  LateDepot depot;
  InputsHome home{depot};
  Arena saved, scratch;
  Ctx c;
};

void fill(const Tensor& t, std::size_t block) {
  for (std::int64_t r = 0; r < t.rows(); ++r)
    for (std::int64_t j = 0; j < t.cols(); ++j)
      t.as<float>()[r * t.stride + j] = static_cast<float>(100 * block + static_cast<std::size_t>(r + j));
}
bool holds(const Tensor& t, std::size_t block) {
  for (std::int64_t r = 0; r < t.rows(); ++r)
    for (std::int64_t j = 0; j < t.cols(); ++j)
      if (t.as<float>()[r * t.stride + j] !=
          static_cast<float>(100 * block + static_cast<std::size_t>(r + j)))
        return false;
  return true;
}

TEST(OffloadedInputs, ComeBackInTimeThroughThreeTensors) {
  Pass p;
  p.c.inputs = &p.home;
  p.home.used = Depot::kBlock;  // of an earlier stack
  const Tensor x = p.c.save(kRows, kColumns);
  OffloadedInputs inputs;
  std::vector<bool> leave(kBlocks, true);
  leave[0] = leave[4] = false;
  inputs.begin(p.c, leave, x);
  EXPECT_EQ(p.saved.mark(), 4 * x.rows() * x.stride * size_of(x.dtype));
  std::vector<Tensor> at(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    EXPECT_EQ(inputs.leaves(i), leave[i]);
    if (!leave[i]) continue;
    at[i] = inputs.take(i);
    fill(at[i], i);
    inputs.put(i);
  }
  EXPECT_FALSE(inputs.leaves(kBlocks));
  EXPECT_EQ(p.home.used, 6 * Depot::kBlock);
  EXPECT_EQ(at[2].data, at[5].data);
  for (std::size_t i = kBlocks; i-- > 0;) {
    inputs.bring_back(i);
    EXPECT_TRUE(!leave[i] || holds(at[i], i)) << i;
  }
  inputs.end();
  EXPECT_EQ(p.home.used, Depot::kBlock);
  EXPECT_EQ(p.home.peak, 6 * Depot::kBlock);
}

TEST(OffloadedInputs, TakeNothingIfNoneLeaves) {
  Pass p;
  const Tensor x = p.c.save(kRows, kColumns);
  const std::int64_t mark = p.saved.mark();
  OffloadedInputs inputs;
  inputs.begin(p.c, std::vector<bool>(kBlocks), x);  // without c.inputs
  EXPECT_FALSE(inputs.leaves(1));
  inputs.bring_back(1);
  inputs.end();
  p.c.inputs = &p.home;
  inputs.begin(p.c, std::vector<bool>(kBlocks), x);
  inputs.bring_back(1);
  inputs.end();
  EXPECT_EQ(p.saved.mark(), mark);
  EXPECT_EQ(p.home.peak, 0);
}

}  // namespace
}  // namespace ft::test
