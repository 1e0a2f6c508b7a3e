// RLOO, tested from outside: the same bits after a resumption and in any stage, planned memory, columns and
// evaluations.
#include "tests/life/objectives/online_place.h"

namespace ft::test {
namespace {

Json rloo(const Json& more = Json::object()) {
  Json c = {{"type", "rloo"}};
  c.merge_patch(more);
  return c;
}
const Json kNormalized = {
    {"num_iterations", 2}, {"steps_per_generation", 12}, {"normalize_advantages", true}};

TEST(RlooLife, AResumedRunHasTheSameBits) {
  for (const auto& [objective, kind] : {std::pair{Json::object(), kLora}, std::pair{kNormalized, kFull}}) {
    const OnlinePlace w(rloo(objective), kind);
    expect_same_after_resuming(w);
  }
}

TEST(RlooLife, ResultsDoNotDependOnStage) { expect_same_in_stages(OnlinePlace(rloo(kNormalized), kLora)); }

TEST(RlooLife, ThePlanCoversTheMeasurement) { expect_plan_covers(OnlinePlace(rloo(), kFull)); }

// The first step's advantages are the leads over the other answers, because policy and reference are the
// same.
TEST(RlooLife, TheLogAndTheRolloutsAreTrue) {
  const OnlinePlace w(rloo());
  w.hold_out(5);
  ASSERT_EQ(w.train({"data.eval_datasets=[{\"path\": \"held.jsonl\"}]", "evaluation.eval_strategy=epoch",
                     "training.per_device_eval_batch_size=4"}),
            0)
      << w.says();
  const Json row = w.log()[0];
  for (const char* name :
       {"reward", "reward_std", "frac_reward_zero_std", "rewards/reward_command/mean",
        "completions/mean_length", "kl", "entropy", "clip_ratio/low_mean", "clip_ratio/region_mean"})
    EXPECT_TRUE(row.contains(name)) << name << row;
  EXPECT_EQ(row["kl"], 0);
  const auto given = w.rollouts();
  double loss = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    double others = 0;
    for (std::size_t k = i / 3 * 3; k < i / 3 * 3 + 3; ++k)
      if (k != i) others += given[k]["reward"].get<double>() / 2;
    EXPECT_NEAR(given[i]["advantage"], given[i]["reward"].get<double>() - others, 1e-6) << i;
    loss -= given[i]["advantage"].get<double>() / 12;
  }
  EXPECT_NEAR(row["loss"], loss, 1e-6);
  const auto evaluations = w.evaluations();
  ASSERT_GE(evaluations.size(), 1u);
  for (const char* name : {"eval_reward", "eval_kl", "eval_entropy", "eval_loss"})
    EXPECT_TRUE(evaluations.back().contains(name)) << name;
}

}  // namespace
}  // namespace ft::test
