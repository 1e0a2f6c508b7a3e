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

TEST(RlooLife, ResultsDoNotDependOnStage) {
  const OnlinePlace w(rloo(kNormalized), kLora);
  const auto launched = [&](int stage) {
    const std::string out = "s" + std::to_string(stage);
    EXPECT_EQ(
        w.run({"launch", "-n", "2", "train", "--config", "run.json", "zero_stage=" + std::to_string(stage),
               "zero_optimization.stage3_param_persistence_threshold=0", "objective.steps_per_generation=6",
               "training.gradient_accumulation_steps=3", "training.output_dir=" + out}),
        0)
        << w.says();
    return out;
  };
  ASSERT_EQ(w.train(), 0) << w.says();
  const std::string plain = launched(2), sharded = launched(3);
  EXPECT_TRUE(w.weights(plain) == w.weights(sharded));
  EXPECT_EQ(contents(w / plain / "rollouts.jsonl"), contents(w / sharded / "rollouts.jsonl"));
  const auto one = w.log(), several = w.log(plain);
  ASSERT_EQ(one.size(), several.size());
  for (std::size_t i = 0; i < 2; ++i)
    for (const char* name : {"loss", "entropy", "kl", "reward"})
      if (one[i].contains(name)) {
        EXPECT_NEAR(one[i][name], several[i][name], 1e-5) << name << " " << i;
      }
}

TEST(RlooLife, ThePlanCoversTheMeasurement) {
  const OnlinePlace w(rloo(), kFull);
  ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json"}), 0) << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(w.train(), 0) << w.says();
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  for (const char* name : {"weights", "gradients", "optimizer"})
    EXPECT_EQ(planned.at(name), measured.at(name)) << name;
  for (const char* name : {"activations", "scratch", "total"})  // answers may be shorter than planned
    EXPECT_GE(planned.at(name).get<double>(), measured.at(name).get<double>()) << name;
}

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
