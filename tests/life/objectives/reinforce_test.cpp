// REINFORCE++, tested from outside: the same bits after a resumption and in any stage, planned memory,
// columns and evaluations.
#include "tests/life/objectives/online_place.h"

namespace ft::test {
namespace {

Json reinforce(const Json& more = Json::object()) {
  Json c = {{"type", "reinforce++"}, {"num_generations", nullptr}};
  c.merge_patch(more);
  return c;
}
const Json kBaseline = {
    {"num_iterations", 2}, {"steps_per_generation", 12}, {"num_generations", 3}, {"group_baseline", true}};

TEST(ReinforceLife, AResumedRunHasTheSameBits) {
  for (const auto& [objective, kind] : {std::pair{Json{{"beta", 0}}, kLora}, std::pair{kBaseline, kFull}}) {
    const OnlinePlace w(reinforce(objective), kind);
    expect_same_after_resuming(w, {"training.num_train_epochs=5"});
  }
}

TEST(ReinforceLife, ResultsDoNotDependOnStage) {
  expect_same_in_stages(OnlinePlace(reinforce(kBaseline), kLora));
}

TEST(ReinforceLife, ThePlanCoversTheMeasurement) { expect_plan_covers(OnlinePlace(reinforce(), kFull)); }

// Policy and reference are the same in the first step, so that a token's advantage is its answer's normalized
// reward, and the loss is minus the mean of the advantages: 0.
TEST(ReinforceLife, TheLogAndTheRolloutsAreTrue) {
  const OnlinePlace w(reinforce());
  w.hold_out(5);
  ASSERT_EQ(w.train({"data.eval_datasets=[{\"path\": \"held.jsonl\"}]", "evaluation.eval_strategy=epoch",
                     "training.per_device_eval_batch_size=4"}),
            0)
      << w.says();
  const Json row = w.log()[0];
  for (const char* name : {"reward", "reward_std", "rewards/reward_command/mean", "completions/mean_length",
                           "kl", "entropy", "clip_ratio/low_mean", "clip_ratio/region_mean"})
    EXPECT_TRUE(row.contains(name)) << name << row;
  EXPECT_EQ(row["kl"], 0);
  const auto given = w.rollouts();
  ASSERT_EQ(given.size(), 12u) << "12 of 16 prompts fill a generation, one answer each";
  double n = 0, mean = 0, squares = 0;
  for (const Json& answer : given)
    for (std::size_t t = 0; t < answer["completion_ids"].size(); ++t)
      mean += answer["reward"].get<double>(), ++n;
  mean /= n;
  for (const Json& answer : given) {
    const double off = answer["reward"].get<double>() - mean;
    squares += off * off * double(answer["completion_ids"].size()) / n;
  }
  for (const Json& answer : given) {
    ASSERT_EQ(answer["advantages"].size(), answer["completion_ids"].size());
    for (const Json& advantage : answer["advantages"])
      EXPECT_NEAR(advantage, (answer["reward"].get<double>() - mean) / std::sqrt(squares), 1e-5);
  }
  EXPECT_NEAR(row["loss"], 0, 1e-6);
  const auto evaluations = w.evaluations();
  ASSERT_GE(evaluations.size(), 1u);
  for (const char* name : {"eval_reward", "eval_kl", "eval_entropy", "eval_loss"})
    EXPECT_TRUE(evaluations.back().contains(name)) << name;
}

}  // namespace
}  // namespace ft::test
