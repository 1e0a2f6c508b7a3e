// Dynamic fine-tuning is a cross-entropy: ranks may share a model in every way.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

TEST(DftLife, EveryParallelAxisGivesTheLosses) {
  Json c = {{"objective", {{"loss_type", "dft"}}},
            {"training", {{"gradient_accumulation_steps", 2}, {"max_steps", 5}, {"learning_rate", 0.01}}}};
  c.merge_patch(kFull);
  const Workplace w("llama", c);
  ASSERT_EQ(w.train(), 0) << w.says();
  const auto one = losses(w / "out");
  ASSERT_EQ(one.size(), 5u);
  for (const std::string axis : {"tensor", "pipeline", "sequence"}) {
    ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json",
                     "distributed." + axis + "_parallel_size=2", "training.output_dir=" + axis}),
              0)
        << axis << w.says();
    const auto two = losses(w / axis);
    ASSERT_EQ(one.size(), two.size()) << axis;
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(one[i], two[i], 1e-5 * (1 + std::abs(one[i]))) << axis << " step " << i;
  }
}

}  // namespace
}  // namespace ft::test
