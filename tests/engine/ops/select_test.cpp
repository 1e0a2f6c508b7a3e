// From a Device to its Ops.
#include <gtest/gtest.h>

#include "engine/ops/ops.h"

namespace ft {
namespace {

TEST(MakeOps, MakesTheCpu) { EXPECT_EQ(make_ops({Device::Kind::cpu, 0})->device(), Device{}); }

TEST(MakeOps, WithoutCudaACudaDeviceIsAUserError) {
  try {
    make_ops({Device::Kind::cuda, 3});
    GTEST_SKIP() << "this build has CUDA";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::hardware);
    EXPECT_STREQ(e.what(), "device cuda:3: this ft was built without CUDA; use device cpu");
  }
}

}  // namespace
}  // namespace ft
