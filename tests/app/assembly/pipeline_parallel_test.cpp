// A model that cannot be split into stages is refused by the setting's name.
#include "app/assembly/pipeline_parallel.h"

#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "tests/engine/train/plain_model.h"

namespace ft {
namespace {

class WithoutStages final : public test::PlainModel {
 public:
  WithoutStages() : PlainModel({{"w", 4}}, DType::f32) {}
  void forward_backward(Ctx&, ParameterStore&, const Batch&, const Loss&) override {}
};

TEST(KeepStages, RefusesAModelWithoutStages) {
  BuiltModel b;
  b.made.model = std::make_unique<WithoutStages>();
  keep_stages(b, {}, {.stages = 1});
  try {
    keep_stages(b, {}, {.stages = 2});
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    EXPECT_STREQ(e.what(),
                 "distributed.pipeline_parallel_size is 2: this model cannot be split into stages yet; leave "
                 "it out");
  }
}

}  // namespace
}  // namespace ft
