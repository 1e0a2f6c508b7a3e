// Making the Ops of a Device.
#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

TEST(MakeOps, MakesTheCpu) { EXPECT_EQ(make_ops({Device::Kind::cpu, 0})->device(), Device{}); }

// No machine has this many GPUs. The message depends on whether a driver is installed, and whether any GPU
// exists.
TEST(MakeOps, AMissingGpuIsAUserError) {
  try {
    make_ops({Device::Kind::cuda, 9999});
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::hardware);
    if (cuda_version()) {
      EXPECT_TRUE(std::string(e.what()).starts_with("device cuda:9999: ")) << e.what();
    } else {
      EXPECT_STREQ(
          e.what(),
          "device cuda:9999: this ft was built without CUDA; build it where NVIDIA's CUDA toolkit is "
          "installed, or use device=cpu");
    }
  }
}

}  // namespace
}  // namespace ft
