// 1-bit Adam, tested from outside: warm-up and signs; the same bits in the stages that it supports and from
// checkpoints, with a moving average, accumulation, clipping and steps that fp16 skips; memory and bytes as
// planned; refused settings.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/core/error.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

Json onebit(Json config) {
  config["training"] = {
      {"optim", "onebit_adam"}, {"optim_args", "freeze_step=4"},
      {"max_steps", 10},        {"learning_rate", 0.0005},
      {"weight_decay", 0.1},    {"ema_decay", 0.9},
      {"max_grad_norm", 0.5},   {"param_groups", {{{"params", "k_proj"}, {"learning_rate", 0.001}}}}};
  config["checkpointing"] = {{"save_strategy", "steps"}, {"save_steps", 6}};
  return config;
}

struct Trained {
  std::vector<double> losses;
  std::string weights, average;
  bool operator==(const Trained&) const = default;
};

Trained trained(const Workplace& w, const Json& config) {
  return {losses(w / "out"), contents(w / file_of(config)),
          contents(w / ("out/ema/" + file_of(config).substr(4)))};
}

TEST(OneBitAdam, HasTheSameBitsUnderItsStagesAndFromCheckpoints) {
  for (const Json& model : {kFull, kLora})
    for (const char* type : {"f32", "bf16", "fp16"}) {
      const Json config = onebit(model);
      const int ranks = type == std::string("bf16") ? 2 : 3,
                accumulation = type == std::string("fp16") ? 2 : 1;
      std::vector<std::string> more;
      if (type != std::string("f32")) more = {str("training.", type, "=true")};
      if (type == std::string("fp16"))
        more.insert(more.end(),
                    {"training.loss_scaling.initial_scale_power=24", "training.loss_scaling.hysteresis=1"});
      const Workplace w("llama", config);
      ASSERT_EQ(w.run(command(ranks, 0, accumulation, more)), 0) << w.says();
      const Trained want = trained(w, config);
      ASSERT_FALSE(want.average.empty());
      fs::rename(w / "out", w / "first");
      ASSERT_EQ(w.run(command(ranks, 1, accumulation, more)), 0) << w.says();
      EXPECT_TRUE(trained(w, config) == want) << type;
      for (const int stage : {0, 1}) {
        fs::remove_all(w / "out");
        std::vector<std::string> resumed = more;
        resumed.emplace_back("training.resume_from_checkpoint=first/checkpoint-6");
        ASSERT_EQ(w.run(command(ranks, stage, accumulation, resumed)), 0) << w.says();
        EXPECT_TRUE(contents(w / file_of(config)) == want.weights) << type << stage;
      }
    }
}

// The sum of the remainders that workers keep is preserved, but sharded evenly among the new ranks.
TEST(OneBitAdam, GoesOnWithAnotherNumberOfRanks) {
  const Workplace w("llama", onebit(kFull));
  ASSERT_EQ(w.run(command(2, 0, 3, {})), 0) << w.says();
  const std::vector<double> want = losses(w / "out");
  fs::rename(w / "out", w / "first");
  for (const int ranks : {1, 3}) {
    ASSERT_EQ(w.run(command(ranks, ranks == 1 ? 0 : 1, 6 / ranks,
                            {"training.resume_from_checkpoint=first/checkpoint-6"})),
              0)
        << w.says();
    const std::vector<double> got = losses(w / "out");
    ASSERT_EQ(got.size(), 4u);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i + 6], 0.08 * want[i + 6]) << ranks << " " << i;
    fs::remove_all(w / "out");
  }
}

// Signs take a 32nd of the bytes of f32. The plan gives the bytes that the last step sends.
TEST(OneBitAdam, MemoryAndBytesArePlanned) {
  for (const int stage : {0, 1}) {
    const Workplace w("llama", onebit(kFull));
    const std::vector<std::string> train = command(3, stage, 3, {"training.max_steps=6"});
    ASSERT_EQ(w.run(train), 0) << w.says();
    const std::vector<Json> log = rows(w / "out/log.jsonl");
    std::vector<double> sent;
    for (const Json& row : log)
      if (row.contains("loss")) sent.push_back(row.at("sent_per_step"));
    ASSERT_EQ(sent.size(), 6u);
    EXPECT_EQ(sent[0], sent[2]);
    EXPECT_EQ(sent[3], sent[5]);
    EXPECT_EQ(sent[5], log.back().at("sent_per_step"));
    if (stage == 0) {
      EXPECT_LT(sent[3], sent[0] / 20);
    }
    std::vector<std::string> plan(std::find(train.begin(), train.end(), "train"), train.end());
    plan[0] = "plan";
    plan.insert(plan.end(), {"--json", "distributed.nproc_per_node=3"});
    ASSERT_EQ(w.run(plan), 0) << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    for (const auto& [name, bytes] : log.back().at("memory").items())
      EXPECT_EQ(planned.at(name), bytes) << name << ", stage " << stage;
    EXPECT_EQ(planned.at("sent_per_step"), log.back().at("sent_per_step")) << stage;
  }
}

TEST(OneBitAdam, SaysWhereTheRunEndsBeforeIt) {
  const Workplace w("llama", onebit(kFull));
  ASSERT_EQ(w.run(command(
                2, 0, 1,
                {"training.max_steps=1", "training.optim_args=freeze_step=400", "logging.progress=plain"})),
            0);
  EXPECT_NE((w.says() + contents(w / "stdout")).find("freeze_step 400"), std::string::npos) << w.says();
}

TEST(OneBitAdam, IsRefusedWithUnsupportedSettings) {
  const Workplace w("llama", onebit(kFull));
  for (const auto& [ranks, setting, says] :
       {std::tuple{2, "zero_optimization.stage=2", "OneBitAdam) needs whole gradients"},
        {2, "zero_optimization.stage=3", "not 3"},
        {2, "zero_optimization.mics_shard_size=2", "mics_shard_size"},
        {1, "zero_optimization.offload_optimizer.device=cpu", "onebit_adam"},
        {2, "distributed.tensor_parallel_size=2", "training.optim"},
        {1, "training.adam_w_mode=false", "adam_w_mode"},
        {1, "training.optim_args=freeze_step=1", "freeze_step"},
        {1, R"(training.param_groups=[{"params": "v_proj", "frozen_until_step": 3}])",
         "frozen_until_step"}}) {
    std::vector<std::string> words{"train", "--config", "run.json", setting};
    if (ranks > 1) words.insert(words.begin(), {"launch", "-n", "2"});
    EXPECT_EQ(w.run(words), 2) << setting << w.says();
    EXPECT_NE(w.says().find(says), std::string::npos) << setting << w.says();
    EXPECT_FALSE(fs::exists(w / "out/log.jsonl")) << setting;
  }
  EXPECT_EQ(w.run({"verify", "zero", "--config", "run.json", "--ranks", "1,2"}), 2) << w.says();
  EXPECT_NE(w.says().find("onebit_adam"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
