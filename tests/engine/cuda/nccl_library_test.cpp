// NVIDIA's own NCCL, if installed: it has the functions that ft looks up, and works without a GPU.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/cuda/nccl/nccl.h"
#include "engine/cuda/nccl/nccl_communicator.h"

namespace ft::cuda {
namespace {

TEST(NcclLibrary, IsFoundAndAnswers) {
  const Nccl* f = nccl();
  if (!f) GTEST_SKIP() << "there is no " << kNcclLibrary;
  EXPECT_TRUE(nccl_version()->starts_with("2.")) << *nccl_version();
  NcclId first{}, second{};
  ASSERT_EQ(f->unique_id(&first), NcclResult::success);
  ASSERT_EQ(f->unique_id(&second), NcclResult::success);
  EXPECT_NE(std::memcmp(&first, &second, sizeof first), 0);
  EXPECT_STRNE(f->error_text(NcclResult::remote_error), f->error_text(NcclResult::invalid_usage));
}

}  // namespace
}  // namespace ft::cuda
