// PPO, tested from outside: the same bits after a resumption and in any stage, planned memory, the written
// critic, the log's columns and refused settings. ppo_golden_test.cpp tests its numbers.
#include "tests/life/objectives/online_place.h"

namespace ft::test {
namespace {

// The objective PPO; num_generations null removes GRPO's value.
Json ppo(const Json& more = Json::object()) {
  Json c = {{"type", "ppo"}, {"num_generations", nullptr}};
  c.merge_patch(more);
  return c;
}
const Json kReused = {{"num_iterations", 2}, {"steps_per_generation", 4}, {"critic_learning_rate", 0.03}};
std::string critic_of(const OnlinePlace& w, const std::string& out = "out") {
  const fs::path folder = w / (out + "/critic");
  const bool adapter = fs::exists(folder / "adapter_model.safetensors");
  return contents(folder / (adapter ? "adapter_model.safetensors" : "model.safetensors"));
}

TEST(PpoLife, AResumedRunHasTheSameBits) {
  for (const auto& [objective, kind] : {std::pair{Json::object(), kLora}, std::pair{kReused, kFull}}) {
    const OnlinePlace w(ppo(objective), kind);
    expect_same_after_resuming(w, {"training.gradient_accumulation_steps=2"}, [&] { return critic_of(w); });
  }
}

TEST(PpoLife, ResultsDoNotDependOnRanksAndStage) {
  const OnlinePlace w(ppo(kReused), kLora);
  const auto launched = [&](int ranks, int stage) {
    const std::string out = "r" + std::to_string(ranks) + "s" + std::to_string(stage);
    EXPECT_EQ(w.run({"launch", "-n", std::to_string(ranks), "train", "--config", "run.json",
                     "zero_stage=" + std::to_string(stage),
                     "zero_optimization.stage3_param_persistence_threshold=0",
                     "objective.steps_per_generation=" + std::to_string(4 / ranks),
                     "generation.batch_size=" + std::to_string(9 - ranks - stage),
                     "training.gradient_accumulation_steps=" + std::to_string(2 / ranks),
                     "training.output_dir=" + out}),
              0)
        << w.says();
    return out;
  };
  ASSERT_EQ(w.train({"training.gradient_accumulation_steps=2"}), 0) << w.says();
  const std::string plain = launched(2, 2), sharded = launched(2, 3);
  EXPECT_TRUE(w.weights(plain) == w.weights(sharded));
  EXPECT_TRUE(critic_of(w, plain) == critic_of(w, sharded));
  EXPECT_EQ(contents(w / plain / "rollouts.jsonl"), contents(w / sharded / "rollouts.jsonl"));
  const auto one = w.log(), several = w.log(plain);
  ASSERT_EQ(one.size(), several.size());
  for (std::size_t i = 0; i < 2; ++i)
    for (const char* name : {"loss", "grad_norm", "loss/value_avg", "objective/kl"})
      if (one[i].contains(name)) {
        EXPECT_NEAR(one[i][name], several[i][name], 1e-4) << name << " " << i;
      }
}

TEST(PpoLife, ThePlanCoversTheMeasurement) {
  for (const Json& kind : {kLora, kFull}) {
    const OnlinePlace w(ppo(), kind);
    expect_plan_covers(w);
  }
}

TEST(PpoLife, TheLogHasTRLsColumns) {
  const OnlinePlace w(ppo());
  ASSERT_EQ(w.train(), 0) << w.says();
  for (const char* name :
       {"reward", "reward_std", "rewards/reward_command/mean", "completions/mean_length", "objective/scores",
        "objective/kl", "objective/entropy", "objective/non_score_reward", "objective/rlhf_reward",
        "policy/approxkl_avg", "policy/clipfrac_avg", "policy/entropy_avg", "loss/policy_avg",
        "loss/value_avg", "val/clipfrac_avg", "val/ratio"})
    EXPECT_TRUE(w.log()[0].contains(name)) << name;
  EXPECT_EQ(w.log()[0]["objective/kl"], 0) << "the policy is still the reference";
  EXPECT_EQ(w.log()[0]["val/ratio"], 1);
  EXPECT_EQ(w.rollouts()[0]["advantages"].size(), w.rollouts()[0]["completion_ids"].size());
}

// The critic of a run is a reward model, and the next run's critic may start from it.
TEST(PpoLife, TheCriticIsAModelOfItsOwn) {
  const OnlinePlace w(ppo(), kFull);
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  std::ofstream(w / "in.jsonl") << Json{{"input_ids", {1, 5, 7, 9}}}.dump() << "\n";
  ASSERT_EQ(w.run({"score", "--model", "out/critic", "--input", "in.jsonl", "--output", "s.jsonl"}), 0)
      << w.says();
  EXPECT_TRUE(rows(w / "s.jsonl")[0]["reward"].is_number());
  const std::vector<std::string> settings{"objective.value_model_name_or_path=out/critic",
                                          "training.max_steps=1", "training.learning_rate=1e-30",
                                          "training.output_dir=next"};
  ASSERT_EQ(w.train(settings), 0) << w.says();
  EXPECT_TRUE(critic_of(w, "next") == critic_of(w)) << "it has begun as that one, and has not moved";
  const std::vector<std::string> as_reward{
      "objective.reward_command=null", "objective.reward_model_name_or_path=out/critic",
      "training.max_steps=1", "training.learning_rate=1e-30", "training.output_dir=third"};
  ASSERT_EQ(w.train(as_reward), 0) << w.says();
  EXPECT_TRUE(critic_of(w, "third") == critic_of(w)) << "as the reward model, where there is one";
}

TEST(PpoLife, AnAnswerWithoutARewardIsNotTrainedOn) {
  const OnlinePlace w(ppo());
  w.reward("while read -r line; do\n" + kRead +
           "r=$((first % 5)); [ $((id % 3)) = 0 ] && r=null\necho \"{\\\"id\\\": $id, \\\"reward\\\": "
           "$r}\"\ndone\n");
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  const std::vector<Json> given = w.rollouts();
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(given[i]["reward"].is_null(), i % 3 == 0) << i;
    EXPECT_EQ(given[i]["advantages"].empty(), i % 3 == 0) << i;
  }
}

TEST(PpoLife, Float16TrainsBoth) {
  const OnlinePlace w(ppo(), kFull);
  ASSERT_EQ(w.train({"training.fp16=true", "training.max_steps=2"}), 0) << w.says();
  EXPECT_EQ(w.log().size(), 2u);
}

TEST(PpoLife, MeaninglessSettingsAreRefused) {
  const OnlinePlace w(ppo());
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"objective.reward_command=null"}, "set what rewards the answers"},
      {{"objective.num_generations=4"}, "objective.num_generations: objective.type ppo has no such setting"},
      {{"objective.epsilon=0.1"}, "objective.epsilon"},
      {{"objective.kl_coef=0", "objective.ref_model_name_or_path=model"},
       "no effect with objective.kl_coef=0"},
      {{"objective.cliprange=1.5"}, "objective.cliprange"},
      {{"objective.lam=2"}, "objective.lam"},
      {{"objective.steps_per_generation=9"}, "objective.steps_per_generation"},
      {{"lora.init_lora_weights=eva"}, "lora.init_lora_weights"},
      {{"objective.type=grpo", "objective.num_generations=3", "objective.gamma=1"}, "it is of ppo"}};
  for (const auto& [overrides, words] : refused) {
    EXPECT_EQ(w.train(overrides), 2) << words;
    EXPECT_NE(w.says().find(words), std::string::npos) << w.says();
    EXPECT_FALSE(fs::exists(w / "out"));
  }
}

}  // namespace
}  // namespace ft::test
