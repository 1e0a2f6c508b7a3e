// Checkpoints beside training, and audits, from outside, with every arrangement of ranks.
#include <gtest/gtest.h>

#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

struct Arranged {
  Json config;
  const char* golden;
  int ranks, stage;
  Words more;
};

class Arrangement : public testing::TestWithParam<Arranged> {};

INSTANTIATE_TEST_SUITE_P(
    All, Arrangement,
    testing::Values(Arranged{kFull, "llama", 2, 0, {}},
                    Arranged{kFull, "llama", 2, 1, {"training.bf16=true"}},
                    Arranged{kLora, "llama", 2, 2, {}}, Arranged{kQlora, "llama", 2, 0, {}},
                    Arranged{kFull, "llama", 2, 3, {}},
                    Arranged{kFull, "llama", 4, 1, {"distributed.tensor_parallel_size=2"}},
                    Arranged{
                        kLora,
                        "llama",
                        2,
                        0,
                        {"distributed.tensor_parallel_size=2", "distributed.partition_activations=true"}},
                    Arranged{kFull, "llama", 4, 0, {"distributed.pipeline_parallel_size=2"}},
                    Arranged{kFull, "llama", 2, 0, {"distributed.sequence_parallel_size=2"}},
                    Arranged{kFull, "llama", 4, 3, {"zero_optimization.mics_shard_size=2"}}));

// Audits and saves every step: nothing differs, and the result is the same as without audits and saving.
TEST_P(Arrangement, SavesBesideAndAuditsWithoutATrace) {
  const Arranged& a = GetParam();
  const Words steps = {"training.max_steps=4", "checkpointing.save_strategy=steps",
                       "checkpointing.save_steps=1", "checkpointing.save_total_limit=2",
                       "logging.progress=plain"};
  const auto go = [&](const Workplace& w, Words more) {
    more.insert(more.end(), steps.begin(), steps.end());
    more.insert(more.end(), a.more.begin(), a.more.end());
    ASSERT_EQ(w.run(command(a.ranks, a.stage, 1, more)), 0) << w.says();
  };
  const Workplace plain(a.golden, a.config), guarded(a.golden, a.config);
  go(plain, {"checkpointing.async_save=false"});
  go(guarded, {"checkpointing.async_save=true", "training.audit_steps=1"});
  EXPECT_NE(guarded.says().find("training waited"), std::string::npos) << guarded.says();
  EXPECT_NE(guarded.says().find("training.audit_steps: "), std::string::npos) << guarded.says();
  EXPECT_EQ(plain.says().find("training waited"), std::string::npos);
  EXPECT_EQ(contents(guarded / file_of(a.config)), contents(plain / file_of(a.config)));
  int compared = 0;
  for (const auto& entry : fs::recursive_directory_iterator(plain / "out")) {
    if (entry.path().extension() != ".safetensors") continue;
    const fs::path file = fs::relative(entry.path(), plain / ".");
    EXPECT_EQ(contents(guarded / file.string()), contents(entry.path())) << file;
    ++compared;
  }
  EXPECT_GE(compared, 5);  // two checkpoints of weights and states, and the result
}

}  // namespace
}  // namespace ft::test
