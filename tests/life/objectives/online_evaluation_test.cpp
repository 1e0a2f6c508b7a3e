// Evaluations of GRPO and PPO: held-out prompts are answered and rewarded, the same way at every evaluation
// and with any number of ranks, and training does not change by a bit.
#include "tests/life/objectives/online_place.h"

namespace ft::test {
namespace {

const Json kPpo = {{"type", "ppo"}, {"num_generations", nullptr}};
const std::vector<std::string> kHeldOut{"data.eval_datasets=[{\"path\": \"held.jsonl\"}]",
                                        "evaluation.eval_strategy=steps", "evaluation.eval_steps=1",
                                        "training.per_device_eval_batch_size=4"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(OnlineEvaluation, HeldOutPromptsAreAnsweredAndRewarded) {
  for (const Json& objective : {Json::object(), kPpo}) {
    const OnlinePlace w(objective);
    w.hold_out(5);
    const std::string steps = "training.gradient_accumulation_steps=3";
    ASSERT_EQ(w.train({steps}), 0) << w.says();
    const std::string want = w.weights();
    const auto rollouts = w.rollouts();
    ASSERT_EQ(w.train(with(kHeldOut, {"--overwrite", steps})), 0) << w.says();
    EXPECT_TRUE(w.weights() == want);
    EXPECT_EQ(w.rollouts(), rollouts);
    const auto evaluations = w.evaluations();
    ASSERT_GE(evaluations.size(), 2u);
    for (const Json& row : evaluations) {
      EXPECT_EQ(row["eval_reward"], row["eval_rewards/reward_command/mean"]);
      for (const char* name : {"eval_reward_std", "eval_completions/mean_length", "eval_loss"})
        EXPECT_TRUE(row.contains(name)) << name << row;
      if (objective.empty()) {
        EXPECT_TRUE(row.contains("eval_entropy")) << row;
      } else {
        EXPECT_EQ(row["eval_loss"].get<double>(), -row["eval_objective/rlhf_reward"].get<double>());
      }
    }
  }
}

// ft eval gives the same answers as the last evaluation of the run, with one rank or several.
TEST(OnlineEvaluation, EvalIsTheLastEvaluation) {
  for (const Json& objective : {Json{{"beta", 0.1}}, kPpo}) {
    const OnlinePlace w(objective);
    w.hold_out(7);
    ASSERT_EQ(w.train(with(kHeldOut, {"evaluation.eval_strategy=epoch"})), 0) << w.says();
    const Json last = w.evaluations().back();
    const std::vector<std::string> eval =
        with({"eval", "--config", "run.json", "--adapter", "out", "--json"}, kHeldOut);
    ASSERT_EQ(w.run(eval), 0) << w.says();
    const Json one = Json::parse(contents(w / "stdout"));
    EXPECT_EQ(one["eval_rows"], objective.contains("type") ? 7 : 21);
    ASSERT_EQ(w.run(with({"launch", "-n", "2"}, with(eval, {"zero_stage=3"}))), 0) << w.says();
    const std::string said = contents(w / "stdout");
    const Json two = Json::parse(said.substr(said.find('{')));
    for (const auto& [name, value] : one.items()) {
      if (name == "eval_rows") continue;
      EXPECT_NEAR(value, last[name], 1e-5) << name;
      EXPECT_NEAR(value, two[name], 1e-5) << name;
    }
  }
}

TEST(OnlineEvaluation, TheBestIsTheOneWithTheMostReward) {
  const OnlinePlace w;
  w.hold_out(4);
  ASSERT_EQ(w.train(with(kHeldOut, {"evaluation.metric_for_best_model=reward",
                                    "checkpointing.save_strategy=best", "objective.num_generations_eval=2"})),
            0)
      << w.says();
  double best = -1e9;
  int step = 0;
  for (const Json& row : w.evaluations())
    if (row["eval_reward"].get<double>() > best) {
      best = row["eval_reward"];
      step = row["step"];
    }
  EXPECT_TRUE(fs::exists(w / ("out/checkpoint-" + std::to_string(step))));
  EXPECT_EQ(w.train(with(kHeldOut, {"evaluation.metric_for_best_model=bleu", "--overwrite"})), 2) << w.says();
}

TEST(OnlineEvaluation, TheDataMayBeSplit) {
  const OnlinePlace w;
  ASSERT_EQ(w.train({"data.val_set_size=4", "evaluation.eval_strategy=epoch"}), 0) << w.says();
  EXPECT_EQ(w.evaluations().size(), 1u);
  EXPECT_EQ(w.rollouts().size(), 36u) << "twelve prompts are left, three answers to each";
}

TEST(OnlineEvaluation, AProgramThatDiesLosesNothing) {
  const OnlinePlace w;
  w.hold_out(5);
  w.reward("n=0\nwhile read -r line; do\nn=$((n + 1))\n" + kRead +
           "[ $n -gt 26 ] && exit 7\necho \"{\\\"id\\\": $id, \\\"reward\\\": $((first % 5))}\"\ndone\n");
  EXPECT_EQ(w.train(with(kHeldOut, {"evaluation.eval_steps=2"})), 3) << w.says();
  EXPECT_NE(w.says().find("ended with exit code 7"), std::string::npos) << w.says();
  EXPECT_TRUE(fs::exists(w / "out/checkpoint-2"));
}

TEST(OnlineEvaluation, GivenAnswersHaveNone) {
  const OnlinePlace w;
  EXPECT_EQ(w.train({"objective.reward_command=null", "objective.max_completion_length=null",
                     "data.val_set_size=4", "evaluation.eval_strategy=epoch"}),
            2);
  EXPECT_NE(w.says().find("answers that are given have no evaluation"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
