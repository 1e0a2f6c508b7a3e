// Several ranks from the outside: whatever their number and the ZeRO stage, the same training; and whatever
// dies, an end in seconds with nobody left behind.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/program.h"

namespace ft::test {
namespace {

const Json kQlora = {{"lora", {{"r", 4}}}, {"quantization", {{"load_in_4bit", true}}}};

struct Result {
  std::vector<double> losses;
  std::string weights;
};

std::string file_of(const Json& config) {
  return config.contains("lora") ? "out/adapter_model.safetensors" : "out/model.safetensors";
}

std::vector<std::string> command(int ranks, int stage, int accumulation,
                                 const std::vector<std::string>& more) {
  std::vector<std::string> c = {"train", "--config", "run.json", "zero_stage=" + std::to_string(stage),
                                "training.gradient_accumulation_steps=" + std::to_string(accumulation)};
  if (ranks > 1) c.insert(c.begin(), {"launch", "-n", std::to_string(ranks)});
  c.insert(c.end(), more.begin(), more.end());
  return c;
}

Result trained(const std::string& golden, const Json& config, int ranks, int stage, int accumulation,
               const std::vector<std::string>& more = {}) {
  const Workplace w(golden, config);
  EXPECT_EQ(w.run(command(ranks, stage, accumulation, more)), 0) << w.says();
  return {losses(w / "out"), contents(w / file_of(config))};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(std::abs(got[i] - want[i]), bound * want[i]) << i;
}

class Stages : public testing::TestWithParam<std::tuple<Json, int, int>> {};

// The global batch is that of one rank that accumulates more. With one micro-step all stages have the same
// bits; with several, sharded gradients add ranks first and replicated ones micro-steps first.
TEST_P(Stages, AreTheSameTraining) {
  const auto& [config, ranks, accumulation] = GetParam();
  const std::vector<double> one = trained("llama", config, 1, 0, accumulation * ranks).losses;
  std::vector<Result> stages;
  for (int stage = 0; stage < 4; ++stage)
    stages.push_back(trained("llama", config, ranks, stage, accumulation));
  for (const Result& s : stages) expect_near(s.losses, one, 1e-6);
  EXPECT_EQ(stages[1].losses, stages[0].losses);
  EXPECT_EQ(stages[3].losses, stages[2].losses);
  EXPECT_TRUE(stages[1].weights == stages[0].weights);
  EXPECT_TRUE(stages[3].weights == stages[2].weights);
  if (accumulation == 1) {
    EXPECT_EQ(stages[2].losses, stages[0].losses);
    EXPECT_TRUE(stages[2].weights == stages[0].weights);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Stages,
                         testing::Combine(testing::Values(kLora, kFull), testing::Values(1, 2, 3),
                                          testing::Values(1, 2)));

TEST(Ranks, RecomputationAndBf16ChangeNothingBetweenStages) {
  const std::vector<std::string> more = {"training.bf16=true", "training.gradient_checkpointing=true"};
  for (const Json& config : {kLora, kFull, kQlora}) {
    const Result want = trained("llama", config, 2, 0, 1, {"training.bf16=true"});
    for (int stage = 1; stage < 4; ++stage)
      EXPECT_TRUE(trained("llama", config, 2, stage, 1, more).weights == want.weights) << stage;
  }
}

// A table that is also the head is reduced twice a micro-step where gradients are sharded: another order.
TEST(Ranks, ATiedTableIsTheSameToRounding) {
  const Json config = {{"finetuning_type", "full"}};
  const Result one = trained("qwen3", config, 1, 0, 2);
  for (int stage = 0; stage < 4; ++stage)
    expect_near(trained("qwen3", config, 2, stage, 1).losses, one.losses, 1e-6);
}

TEST(Ranks, EvaluationIsTheSame) {
  const Json config = {{"finetuning_type", "full"},
                       {"data", {{"eval_datasets", {{{"path", "train.jsonl"}, {"type", "tokenized"}}}}}},
                       {"training", {{"per_device_eval_batch_size", 5}}},
                       {"evaluation", {{"eval_strategy", "steps"}, {"eval_steps", 3}}}};
  const auto evaluations = [&](int ranks, int stage) {
    const Workplace w("llama", config);
    EXPECT_EQ(w.run(command(ranks, stage, 2 / ranks, {})), 0) << w.says();
    std::vector<double> v;
    for (const Json& row : rows(w / "out/log.jsonl"))
      if (row.contains("eval_loss")) v.push_back(row["eval_loss"]);
    return v;
  };
  const std::vector<double> want = evaluations(1, 0);
  ASSERT_GT(want.size(), 1u);
  for (int stage = 0; stage < 4; ++stage) expect_near(evaluations(2, stage), want, 1e-6);
}

// A checkpoint knows nothing of ranks and stages: what was saved by some goes on with others, as long as the
// micro-batches of a step are as many.
TEST(Ranks, ACheckpointGoesOnWithOtherRanks) {
  const std::vector<std::string> saving = {"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"};
  const std::vector<std::string> resume = {"training.resume_from_checkpoint=out/checkpoint-5"};
  for (const Json& config : {kLora, kFull}) {
    const Result whole = trained("llama", config, 2, 2, 1);
    for (const auto& [ranks, stage] : {std::pair{2, 2}, {2, 3}, {1, 0}}) {
      const Workplace w("llama", config);
      ASSERT_EQ(w.run(command(ranks, stage, 2 / ranks, saving)), 0) << w.says();
      ASSERT_EQ(w.run(command(2, 1, 1, resume)), 0) << w.says();
      if (ranks == 2) {
        EXPECT_TRUE(contents(w / file_of(config)) == whole.weights) << stage;
      }
      expect_near(losses(w / "out"), whole.losses, 1e-6);
      ASSERT_EQ(w.run(command(3, 1, 1, resume)), 4) << w.says();
      EXPECT_NE(w.says().find("gradient_accumulation_steps times ranks changed"), std::string::npos);
    }
  }
}

std::vector<pid_t> children(pid_t pid) {
  std::istringstream in(
      contents("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children"));
  std::vector<pid_t> all;
  for (pid_t c = 0; in >> c;) all.push_back(c);
  return all;
}

bool gone(const std::vector<pid_t>& all) {
  for (int i = 0; i < 500; ++i) {
    if (std::all_of(all.begin(), all.end(), [](pid_t p) { return kill(p, 0) != 0; })) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// A run that would last for minutes.
std::vector<std::string> endless(int ranks, int stage) {
  return command(ranks, stage, 1, {"training.num_train_epochs=100000"});
}

TEST(Ranks, AKilledOneEndsTheRunWithItsName) {
  for (const int stage : {0, 3}) {
    const Workplace w("llama", kLora);
    const pid_t launcher = w.start(endless(3, stage));
    ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
    const std::vector<pid_t> ranks = children(launcher);
    ASSERT_EQ(ranks.size(), 3u);
    const auto start = std::chrono::steady_clock::now();
    kill(ranks[1], SIGKILL);
    EXPECT_EQ(w.finish(launcher), 128 + SIGKILL);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_TRUE(gone(ranks));
    EXPECT_NE(w.says().find("rank 1 was killed by signal 9"), std::string::npos) << w.says();
    EXPECT_NE(w.says().find("[0] rank 1 on "), std::string::npos) << w.says();
  }
}

TEST(Ranks, AStuckOneIsNamedAtTheLimit) {
  const Workplace w("llama", kLora);
  auto run = endless(2, 2);
  run.emplace_back("distributed.timeout_s=6");
  const pid_t launcher = w.start(run);
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  const std::vector<pid_t> ranks = children(launcher);
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGSTOP);
  EXPECT_EQ(w.finish(launcher), 9) << w.says();
  EXPECT_TRUE(gone(ranks));
  EXPECT_NE(w.says().find("(process " + std::to_string(ranks[1]) + ") has not answered for 6 s, at step "),
            std::string::npos)
      << w.says();
}

TEST(Ranks, NobodyOutlivesTheLauncher) {
  const Workplace w("llama", kLora);
  const pid_t launcher = w.start(endless(3, 1));
  ASSERT_TRUE(w.wait_for_rows(2)) << w.says();
  const std::vector<pid_t> ranks = children(launcher);
  kill(launcher, SIGKILL);
  w.finish(launcher);
  EXPECT_TRUE(gone(ranks));
}

TEST(Ranks, ASignalSavesOnceAndGoesOn) {
  const Workplace w("llama", kLora);
  const pid_t launcher = w.start(endless(2, 3));
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  kill(launcher, SIGTERM);
  EXPECT_EQ(w.finish(launcher), 75) << w.says();
  const auto saved = losses(w / "out").size();
  EXPECT_EQ(w.run(command(
                2, 0, 1,
                {"training.resume_from_checkpoint=true", "training.max_steps=" + std::to_string(saved + 2)})),
            0)
      << w.says();
  EXPECT_EQ(losses(w / "out").size(), saved + 2);
}

// As torchrun starts them: no launcher, only variables.
TEST(Ranks, AreFoundInTheEnvironment) {
  const Workplace w("llama", kLora);
  const Result want = trained("llama", kLora, 2, 2, 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(20000 + getpid() % 10000).c_str(), 1);
  std::vector<pid_t> ranks;
  for (const char* rank : {"0", "1"}) {
    setenv("RANK", rank, 1);
    ranks.push_back(w.start({"train", "--config", "run.json", "zero_stage=2"}));
  }
  for (const pid_t rank : ranks) EXPECT_EQ(w.finish(rank), 0) << w.says();
  unsetenv("WORLD_SIZE");
  EXPECT_EQ(w.train(), 2);
  EXPECT_NE(w.says().find("RANK is in the environment without WORLD_SIZE"), std::string::npos) << w.says();
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
  EXPECT_TRUE(contents(w / file_of(kLora)) == want.weights);
}

TEST(Ranks, WhatIsNotThereYetIsRefused) {
  const Workplace w("llama", kLora);
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& text) {
    EXPECT_EQ(w.run(arguments), 2) << w.says();
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused({"launch", "-n", "2", "eval", "--config", "run.json"}, "ft launch eval is not available yet");
  refused({"launch", "--hostfile", "hosts", "train"}, "--hostfile is not available");
  refused({"launch", "train", "--config", "run.json"}, "how many ranks");
  refused({"launch", "-n", "2", "train", "--config", "run.json", "distributed.nproc_per_node=3"},
          "distributed.nproc_per_node is 3");
  refused(command(2, 3, 1, {"zero_optimization.stage3_prefetch_bucket_size=1000"}),
          "stage3_prefetch_bucket_size is not available yet with several ranks");
  refused({"train", "--config", "run.json", "distributed.nproc_per_node=2"}, "start it with ft launch");
  EXPECT_FALSE(fs::exists(w / "out/run.json"));
}

// What the plan says of a rank is what it takes.
TEST(Ranks, PlannedMemoryIsTheRanks) {
  for (const Json& config : {kLora, kFull})
    for (int stage = 0; stage < 4; ++stage) {
      const Workplace w("llama", config);
      const std::string zero = "zero_stage=" + std::to_string(stage);
      ASSERT_EQ(w.run({"plan", "--config", "run.json", zero, "distributed.nproc_per_node=3", "--json"}), 0)
          << w.says();
      const Json plan = Json::parse(contents(w / "stdout"));
      ASSERT_EQ(w.run(command(3, stage, 1, {})), 0) << w.says();
      const Json took = rows(w / "out/log.jsonl").back()["memory"];
      for (const char* what : {"weights", "adapter", "gradients", "optimizer", "communication"})
        EXPECT_EQ(took[what], plan[what]) << what << " at stage " << stage;
    }
}

}  // namespace
}  // namespace ft::test
