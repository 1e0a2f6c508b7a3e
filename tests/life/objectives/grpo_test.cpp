// GRPO on generated answers, tested from outside: the same bits after a resumption, in any stage and with any
// number of ranks; the answers of ft generate; rollouts that can be trained on again; reward programs that
// misbehave are named, and no data is lost.
#include <gtest/gtest.h>

#include "tests/life/objectives/online_place.h"

namespace ft::test {
namespace {

const Json kLong = {{"num_iterations", 2}, {"steps_per_generation", 12}, {"beta", 0.1}};

TEST(GrpoLife, AResumedRunHasTheSameBits) {
  for (const auto& [objective, kind] : {std::pair{Json::object(), kLora}, std::pair{kLong, kFull}}) {
    const OnlinePlace w(objective, kind);
    expect_same_after_resuming(w);
    EXPECT_EQ(w.rollouts().size(), 48u) << "16 prompts, three answers each";
  }
}

TEST(GrpoLife, AnswersDoNotDependOnRanksAndStage) {
  const OnlinePlace w(kLong, kLora);
  const auto launched = [&](int ranks, int stage) {
    const std::string out = "r" + std::to_string(ranks) + "s" + std::to_string(stage);
    EXPECT_EQ(w.run({"launch", "-n", std::to_string(ranks), "train", "--config", "run.json",
                     "zero_stage=" + std::to_string(stage),
                     "zero_optimization.stage3_param_persistence_threshold=0",
                     "objective.steps_per_generation=" + std::to_string(12 / ranks),
                     "generation.batch_size=" + std::to_string(9 - ranks - stage),
                     "training.gradient_accumulation_steps=" + std::to_string(6 / ranks),
                     "training.output_dir=" + out}),
              0)
        << w.says();
    return out;
  };
  ASSERT_EQ(w.train(), 0) << w.says();
  const std::vector<Json> want = w.rollouts();
  for (const int ranks : {2, 3}) {
    const std::string plain = launched(ranks, 2), sharded = launched(ranks, 3);
    EXPECT_TRUE(w.weights(plain) == w.weights(sharded)) << ranks;
    EXPECT_EQ(contents(w / plain / "rollouts.jsonl"), contents(w / sharded / "rollouts.jsonl"));
    const std::vector<Json> given = w.rollouts(plain);
    ASSERT_EQ(given.size(), want.size());
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(given[i], want[i]) << ranks << " ranks, answer " << i;
    const auto one = losses(w / "out"), several = losses(w / plain);
    ASSERT_EQ(one.size(), several.size());
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(one[i], several[i], 1e-5 * (1 + std::abs(one[i])));
  }
}

// Row i of rollouts.jsonl is the i-th answer of ft generate with the weights at the generation's start.
TEST(GrpoLife, AnswersAreThoseOfGenerate) {
  const OnlinePlace w(Json{{"temperature", 1.5}, {"top_k", 20}, {"top_p", 0.9}, {"repetition_penalty", 1.1}});
  ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=3"}), 0) << w.says();
  const std::vector<Json> given = w.rollouts();
  std::ofstream in(w / "in.jsonl");
  for (const Json& row : given) in << Json{{"input_ids", row["prompt_ids"]}}.dump() << "\n";
  in.close();
  for (const std::size_t step : {0u, 3u}) {
    std::vector<std::string> words{"generate",
                                   "--model",
                                   "model",
                                   "--input",
                                   "in.jsonl",
                                   "--output",
                                   "out" + std::to_string(step) + ".jsonl"};
    if (step > 0) words.insert(words.end(), {"--adapter", "out/checkpoint-3"});
    words.insert(words.end(), {"generation.do_sample=true", "generation.temperature=1.5",
                               "generation.top_k=20", "generation.top_p=0.9",
                               "generation.repetition_penalty=1.1", "generation.max_new_tokens=5"});
    ASSERT_EQ(w.run(words), 0) << w.says();
    const std::vector<Json> answers = rows(w / ("out" + std::to_string(step) + ".jsonl"));
    ASSERT_EQ(answers.size(), given.size());
    for (std::size_t i = 12 * step; i < 12 * (step + 1); ++i) {
      std::vector<int> ids = given[i]["completion_ids"];
      if (given[i]["ended"]) ids.pop_back();
      EXPECT_EQ(answers[i]["output_ids"], Json(ids)) << i;
    }
  }
}

// Training on the written answers and rewards gives the same weights.
TEST(GrpoLife, WrittenRolloutsTrainTheSame) {
  const OnlinePlace w(Json{{"loss_type", "dr_grpo"}});
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  fs::copy(w / "out/rollouts.jsonl", w / "rollouts.jsonl");
  ASSERT_EQ(w.train({"objective={\"type\": \"grpo\", \"num_generations\": 3, \"loss_type\": \"dr_grpo\", "
                     "\"max_completion_length\": 5}",
                     "data.datasets=[{\"path\": \"rollouts.jsonl\"}]", "data.shuffle=false",
                     "training.max_steps=1", "training.output_dir=given"}),
            0)
      << w.says();
  EXPECT_TRUE(w.weights("given") == w.weights());
  for (const char* name : {"loss", "reward", "reward_std", "frac_reward_zero_std", "entropy"})
    EXPECT_EQ(w.log("given")[0][name], w.log()[0][name]) << name;
}

TEST(GrpoLife, ThePlanCoversTheMeasurement) {
  for (const Json& kind : {kLora, kFull}) {
    const OnlinePlace w({{"beta", 0.1}}, kind);
    expect_plan_covers(w);
  }
}

TEST(GrpoLife, TheLogHasTRLsColumns) {
  const OnlinePlace w(Json{
      {"reward_funcs", {"length"}}, {"soft_punish_cache", 2}, {"reward_weights", {0.5, 2}}, {"beta", 0.1}});
  ASSERT_EQ(w.train(), 0) << w.says();
  const Json row = w.log()[0];
  for (const char* name :
       {"reward", "reward_std", "frac_reward_zero_std", "rewards/length/mean", "rewards/length/std",
        "rewards/reward_command/mean", "completions/mean_length", "completions/min_length",
        "completions/max_length", "completions/clipped_ratio", "completions/mean_terminated_length", "kl",
        "entropy", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"})
    EXPECT_TRUE(row.contains(name)) << name;
  const Json first = rows(w / "out/log.jsonl")[0];
  EXPECT_GT(first.value("time_share/generating", 0.0), 0);
  double sum = 0, commanded = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    const Json r = w.rollouts()[i];
    EXPECT_EQ(r["reward"],
              0.5 * r["rewards"]["length"].get<double>() + 2 * r["rewards"]["reward_command"].get<double>());
    sum += r["reward"].get<double>() / 12;
    commanded += r["rewards"]["reward_command"].get<double>() / 12;
  }
  EXPECT_NEAR(row["reward"], sum, 1e-12);
  EXPECT_NEAR(row["rewards/reward_command/mean"], commanded, 1e-12);
}

struct Program {
  const char* name;
  std::string script;
  int exit;
  const char* words;
};

// Each program rewards the first generation of 12 questions, and misbehaves in the second.
TEST(GrpoLife, ProgramsThatMisbehaveAreNamedAndNothingIsLost) {
  const auto in_second = [](const std::string& what) {
    return "n=0\nwhile read -r line; do\nn=$((n + 1))\n" + kRead + "if [ $n -gt 14 ]; then\n" + what +
           "\nfi\necho \"{\\\"id\\\": $id, \\\"reward\\\": $((first % 5))}\"\ndone\n";
  };
  const Program programs[] = {
      {"dies", in_second("echo no more >&2; exit 7"), 3, "ended with exit code 7"},
      {"is killed", in_second("kill -9 $$"), 3, "was ended by signal 9"},
      {"hangs", in_second("sleep 600"), 9, "no reward for 2 s"},
      {"closes its output", in_second("exec >&-; sleep 600"), 3, "closed its output"},
      {"prints garbage", in_second("echo oops"), 3, "is not JSON"},
      {"prints something else", in_second("echo '{\"id\": 14}'"), 3, "is not {\"id\""},
      {"has no number", in_second("echo \"{\\\"id\\\": $id, \\\"reward\\\": \\\"x\\\"}\""), 3, "no number"},
      {"answers out of order", in_second("id=$((id + 1))"), 3, "answer 14, which is next"},
      {"floods with lines", in_second("while :; do echo '{\"id\": 1, \"reward\": 0}'; done"), 3,
       "which is next"},
      {"floods without lines", in_second("while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"), 3,
       "longer than a MiB"},
      {"floods with words", in_second("while :; do echo no >&2; done"), 9, "no reward for 2 s"}};
  const OnlinePlace good;
  ASSERT_EQ(good.train({"training.max_steps=3"}), 0) << good.says();
  for (const Program& p : programs) {
    const OnlinePlace w(Json{{"reward_timeout", 2}});
    w.reward(p.script);
    EXPECT_EQ(w.train({"training.max_steps=3"}), p.exit) << p.name << w.says();
    EXPECT_NE(w.says().find("objective.reward_command"), std::string::npos) << p.name << w.says();
    EXPECT_NE(w.says().find(p.words), std::string::npos) << p.name << w.says();
    EXPECT_TRUE(fs::exists(w / "out/checkpoint-1")) << p.name;
    w.reward(kGood);
    ASSERT_EQ(w.train({"training.max_steps=3", "training.resume_from_checkpoint=auto"}), 0)
        << p.name << w.says();
    EXPECT_TRUE(w.weights() == good.weights()) << p.name;
  }
}

TEST(GrpoLife, ProgramsThatNeverAnswerAreNamed) {
  const OnlinePlace w(Json{{"reward_timeout", 1}});
  const std::tuple<const char*, int, const char*> programs[] = {
      {"exit 0", 3, "ended with exit code 0 after 0 rewards"},
      {"exec no-such-program-of-ours", 3, "exit code 127"},
      {"sleep 600", 9, "after 0 of 12"},
      {"while read -r line; do :; done", 9, "after 0 of 12"}};
  for (const auto& [script, exit, words] : programs) {
    w.reward(script);
    EXPECT_EQ(w.train({"--overwrite"}), exit) << script << w.says();
    EXPECT_NE(w.says().find(words), std::string::npos) << script << w.says();
  }
  const std::vector<std::string> launch{
      "launch",     "-n", "2", "train", "--config", "run.json", "training.gradient_accumulation_steps=3",
      "--overwrite"};
  w.reward("exit 5");
  EXPECT_EQ(w.run(launch), 3) << w.says();
}

TEST(GrpoLife, ARewardModelScoresAnswers) {
  const OnlinePlace w(Json::object(), kFull);
  std::ofstream pairs(w / "pairs.jsonl");
  for (int i = 0; i < 8; ++i)
    pairs << Json{{"prompt_ids", {1, 5 + i}}, {"chosen_ids", {7 + i, 2}}, {"rejected_ids", {30 + i, 9, 2}}}
                 .dump()
          << "\n";
  pairs.close();
  ASSERT_EQ(w.train({"objective={\"type\": \"reward\"}", "data.datasets=[{\"path\": \"pairs.jsonl\"}]",
                     "training.gradient_accumulation_steps=1", "training.output_dir=rm"}),
            0)
      << w.says();
  const std::vector<std::string> settings{"objective.reward_model_name_or_path=rm",
                                          "objective.reward_weights=[0.25, 1]", "training.max_steps=2"};
  ASSERT_EQ(w.train(settings), 0) << w.says();
  std::ofstream in(w / "in.jsonl");
  for (const Json& row : w.rollouts()) {
    std::vector<int> ids = row["prompt_ids"];
    for (const int id : row["completion_ids"]) ids.push_back(id);
    in << Json{{"input_ids", ids}}.dump() << "\n";
  }
  in.close();
  ASSERT_EQ(w.run({"score", "--model", "rm", "--input", "in.jsonl", "--output", "s.jsonl"}), 0) << w.says();
  const std::vector<Json> scored = rows(w / "s.jsonl"), given = w.rollouts();
  ASSERT_EQ(scored.size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(given[i]["rewards"]["rm"], scored[i]["reward"]) << i;
    EXPECT_EQ(given[i]["reward"], 0.25 * given[i]["rewards"]["reward_command"].get<double>() +
                                      given[i]["rewards"]["rm"].get<double>());
  }
  EXPECT_TRUE(w.log()[0].contains("rewards/rm/mean"));
  std::vector<std::string> launch{"launch",
                                  "-n",
                                  "2",
                                  "train",
                                  "--config",
                                  "run.json",
                                  "zero_stage=3",
                                  "training.gradient_accumulation_steps=3",
                                  "training.output_dir=sharded"};
  launch.insert(launch.end(), settings.begin(), settings.end());
  ASSERT_EQ(w.run(launch), 0) << w.says();
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(w.rollouts("sharded")[i], given[i]) << i;
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  std::vector<std::string> plan{"plan", "--config", "run.json", "--json"};
  plan.insert(plan.end(), settings.begin(), settings.end());
  ASSERT_EQ(w.run(plan), 0) << w.says();
  EXPECT_EQ(Json::parse(contents(w / "stdout")).at("weights"), measured.at("weights"));
}

TEST(GrpoLife, ARewardMayBeLeftOut) {
  const OnlinePlace w;
  w.reward("while read -r line; do\n" + kRead +
           "r=$((first % 5)); [ $((id % 3)) = 0 ] && r=null\necho \"{\\\"id\\\": $id, \\\"reward\\\": "
           "$r}\"\ndone\n");
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  const std::vector<Json> given = w.rollouts();
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(given[i]["reward"].is_null(), i % 3 == 0) << i;
    if (i % 3 == 0) {
      EXPECT_EQ(given[i]["advantage"], 0) << i;
    }
  }
}

TEST(GrpoLife, MeaninglessSettingsAreRefused) {
  const OnlinePlace w;
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"objective.num_generations=5"}, "objective.num_generations: a generation makes "},
      {{"objective.steps_per_generation=9"}, "objective.steps_per_generation"},
      {{"objective.max_completion_length=20"}, "objective.max_completion_length"},
      {{"objective.reward_weights=[1, 2]"}, "2 of them for 1 rewards"},
      {{"objective.reward_funcs=regex"}, "objective.reward_regex"},
      {{"objective.reward_regex=a"}, "has no effect without regex"},
      {{"objective.reward_command=null", "objective.top_k=4"}, "objective.top_k"},
      {{"generation.temperature=2"}, "generation.temperature"},
      {{"evaluation.eval_strategy=epoch"}, "evaluation.eval_strategy"},
      {{"objective.type=dpo"}, "has no such setting; it is of grpo"}};
  for (const auto& [overrides, words] : refused) {
    EXPECT_EQ(w.train(overrides), 2) << words;
    EXPECT_NE(w.says().find(words), std::string::npos) << w.says();
    EXPECT_FALSE(fs::exists(w / "out"));
  }
  EXPECT_EQ(w.train({"objective.reward_funcs=exact_match"}), 3) << w.says();
  EXPECT_EQ(w.train({"training.per_device_train_batch_size=60"}), 3) << w.says();
  EXPECT_NE(w.says().find("16 prompts, and a generation takes"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
