// Fails once on a machine without a GPU, in place of all tests, with the reason.
#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"

namespace ft::test {
namespace {

class NeedsGpu : public testing::Environment {
 public:
  void SetUp() override {
    try {
      make_cuda_ops(0);
    } catch (const UserError& e) {
      FAIL() << e.what();
    }
  }
};
[[maybe_unused]] const auto* const kNeedsGpu = testing::AddGlobalTestEnvironment(new NeedsGpu);

}  // namespace
}  // namespace ft::test
