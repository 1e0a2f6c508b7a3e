// CpuOps itself: its memory, its threads, and that products and attention reach their kernels.
#include "engine/cpu/cpu_ops.h"
#include "engine/core/error.h"

#include <gtest/gtest.h>

#include "tests/support/matrix.h"

namespace ft::cpu {
namespace {

using test::Matrix;

TEST(CpuOps, MissingMemoryIsAUserError) {
  CpuOps ops(1);
  try {
    ops.allocate(std::int64_t{1} << 50);
    FAIL() << "a petabyte";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::memory);
    const std::string said = e.what();
    EXPECT_EQ(said.find("not enough memory: 1048576.0 GiB are needed at once, "), 0u) << said;
  }
  EXPECT_TRUE(ops.allocate(0));
}

TEST(CpuOps, MemoryIsAlignedForArenasAndWritable) {
  CpuOps ops(1);
  const std::int64_t bytes = 3 << 20;
  const Buffer memory = ops.allocate(bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % Arena::kAlign, 0u);
  memory.get()[0] = memory.get()[bytes - 1] = std::byte{1};
}

TEST(CpuOps, ProductsAndAttentionReachTheirKernels) {
  CpuOps ops(2);
  Matrix a(2, 2, DType::f32), b(2, 2, DType::f32), y(2, 2, DType::f32);
  a.assign({1, 2, 3, 4});
  b.assign({5, 6, 7, 8});
  product(ops, y, {a, Trans::no, b, Trans::yes});
  EXPECT_EQ(y.values(), (std::vector<double>{17, 23, 39, 53}));
  // Two sequences of one token: each sees only itself.
  Matrix q(2, 4, DType::f32), v(2, 2, DType::f32), out(2, 4, DType::f32), lse(2, 2, DType::f32);
  const std::vector<std::int32_t> starts{0, 1, 2};
  q.assign({1, 0, 0, 1, 2, 0, 0, 2});
  v.assign({5, 6, 7, 8});
  ops.run(op::Attention{.y = out,
                        .lse = lse,
                        .q = q,
                        .k = a,
                        .v = v,
                        .heads = {2, 1, 2},
                        .mask = {.starts = starts},
                        .scores = {.scale = 0.5f}});
  EXPECT_EQ(out.values(), (std::vector<double>{5, 6, 5, 6, 7, 8, 7, 8}));
  EXPECT_LT(test::nmse(lse.values(), {0.5, 3, 1, 4}), 1e-12);  // (heads, rows) of 0.5 q k
  Matrix dq(2, 4, DType::f32), dk(2, 2, DType::f32), dv(2, 2, DType::f32);
  ops.run(op::AttentionGrad{.dq = dq,
                            .dk = dk,
                            .dv = dv,
                            .dy = q,
                            .y = out,
                            .lse = lse,
                            .q = q,
                            .k = a,
                            .v = v,
                            .heads = {2, 1, 2},
                            .mask = {.starts = starts},
                            .scores = {.scale = 0.5f}});
  EXPECT_LT(test::nmse(dv.values(), {1, 1, 2, 2}), 1e-12);
}

TEST(Cores, AContainersQuotaIsRoundedUp) {
  EXPECT_EQ(quota_cores("max 100000"), 0);
  EXPECT_EQ(quota_cores("200000 100000"), 2);
  EXPECT_EQ(quota_cores("150000 100000"), 2);
  EXPECT_EQ(quota_cores("1000 100000"), 1);
  EXPECT_EQ(quota_cores(""), 0);
  EXPECT_EQ(quota_cores("-5 0"), 0);
  EXPECT_GE(usable_cores(), 1);
}

}  // namespace
}  // namespace ft::cpu
