// ZeRO++, tested from outside: second copies that change no bit; runs with rounded weights and gradients,
// which are near the exact ones, can be resumed and are planned; DeepSpeed's names; refused settings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

const std::string kZ = "zero_optimization.";
const std::vector<std::string> kCopies = {kZ + "zero_hpz_partition_size=2"};
const std::vector<std::string> kAll = {kZ + "zero_hpz_partition_size=2", kZ + "zero_quantized_weights=true",
                                       kZ + "zero_quantized_gradients=true"};

std::vector<std::string> with(std::vector<std::string> some, const std::vector<std::string>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

TEST(PlusPlus, SecondCopiesChangeNoBit) {
  for (const Json& config : {kLora, kFull, kQlora})
    for (const int accumulation : {1, 2}) {
      const std::vector<std::string> steps = {"training.max_steps=4", "training.bf16=true"};
      const Result want = result_of("llama", config, 4, 3, accumulation, steps),
                   got = result_of("llama", config, 4, 3, accumulation, with(steps, kCopies));
      EXPECT_EQ(got.losses, want.losses);
      EXPECT_TRUE(got.weights == want.weights);
    }
}

TEST(PlusPlus, TrainsNearlyAsExactly) {
  const std::vector<std::string> steps = {"training.max_steps=6"};
  const Result want = result_of("llama", kFull, 4, 3, 1, steps),
               got = result_of("llama", kFull, 4, 3, 1, with(steps, kAll));
  ASSERT_EQ(got.losses.size(), want.losses.size());
  EXPECT_NE(got.losses, want.losses);
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i], 0.02 * want.losses[i]) << i;
}

TEST(PlusPlus, ResumesWithTheSameBits) {
  Json config = kFull;
  config["checkpointing"] = {{"save_strategy", "steps"}, {"save_steps", 3}};
  const Workplace w("llama", config);
  const std::vector<std::string> more = with({"training.max_steps=6"}, kAll);
  ASSERT_EQ(w.run(command(4, 3, 1, more)), 0) << w.says();
  const std::string want = contents(w / "out/model.safetensors");
  fs::rename(w / "out", w / "first");
  ASSERT_EQ(w.run(command(4, 3, 1, with(more, {"training.resume_from_checkpoint=first/checkpoint-3"}))), 0)
      << w.says();
  EXPECT_TRUE(contents(w / "out/model.safetensors") == want);
}

TEST(PlusPlus, MemoryAndBytesArePlanned) {
  for (const Json& config : {kLora, kFull, kQlora})
    for (const auto& settings : {kCopies, kAll}) {
      const Workplace w("llama", config);
      // An epoch has two micro-batches for every rank; copies of frozen weights are made in the first step.
      const std::vector<std::string> train = command(4, 3, 2, with({"training.max_steps=3"}, settings));
      ASSERT_EQ(w.run(train), 0) << w.says();
      const Json row = rows(w / "out/log.jsonl").back();
      std::vector<std::string> plan(std::find(train.begin(), train.end(), "train"), train.end());
      plan[0] = "plan";
      plan.insert(plan.end(), {"--json", "distributed.nproc_per_node=4"});
      ASSERT_EQ(w.run(plan), 0) << w.says();
      const Json planned = Json::parse(contents(w / "stdout"));
      // Activations are planned for a micro-batch of the longest samples, which no rank gets here.
      for (const char* name : {"weights", "adapter", "gradients", "optimizer", "communication"})
        EXPECT_EQ(planned.at(name), row.at("memory").at(name)) << name;
      EXPECT_EQ(planned.at("sent_per_step"), row.at("sent_per_step"));
    }
}

TEST(PlusPlus, DeepSpeedsFileAsksForIt) {
  const Workplace w("llama", kFull);
  std::ofstream(w / "ds.json") << R"({"train_batch_size": 12, "zero_optimization": {"stage": 3,
    "zero_hpz_partition_size": 2, "zero_quantized_weights": true, "zero_quantized_gradients": true}})";
  ASSERT_EQ(w.run({"launch", "-n", "4", "train", "--config", "run.json", "--deepspeed", "ds.json",
                   "training.max_steps=2", kZ + "stage3_param_persistence_threshold=0"}),
            0)
      << w.says();
  const std::vector<double> got = losses(w / "out");
  EXPECT_EQ(got, result_of("llama", kFull, 4, 3, 1, with({"training.max_steps=2"}, kAll)).losses);
}

TEST(PlusPlus, VerifyComparesSecondCopies) {
  const Workplace w("llama", kLora);
  EXPECT_EQ(w.run({"verify", "zero", "--config", "run.json", kCopies[0], "zero_stage=3", "--ranks", "1,4"}),
            0)
      << contents(w / "stdout") << w.says();
  EXPECT_EQ(w.run({"verify", "zero", "--config", "run.json", kAll[1], "zero_stage=3", "--ranks", "1,2"}), 2);
  EXPECT_NE(w.says().find("zero_quantized"), std::string::npos) << w.says();
}

TEST(PlusPlus, IsRefusedWithUnsupportedSettings) {
  const Workplace w("llama", kFull);
  const std::string stage = "zero_stage=3";
  for (const auto& [settings, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{kAll[0]}, "zero_hpz_partition_size: needs zero_optimization.stage 3, which is 0"},
           {{kAll[1], "zero_stage=2"}, "zero_quantized_weights: needs zero_optimization.stage 3, which is 2"},
           {{kAll[2], "zero_stage=1"}, "zero_quantized_gradients: needs zero_optimization.stage 3"},
           {{stage, kZ + "zero_hpz_partition_size=3"},
            "zero_hpz_partition_size is 3 and there are 4 ranks; it must divide their number"},
           {{stage, kAll[1], kZ + "mics_shard_size=2"}, "not with mics_shard_size"},
           {{stage, kAll[1], kZ + "offload_param.device=nvme", kZ + "offload_param.nvme_path=."},
            "not with offload_param"},
           {{stage, kAll[2], kZ + "offload_optimizer.device=nvme", kZ + "offload_optimizer.nvme_path=."},
            "not with offload_optimizer"}}) {
    EXPECT_EQ(w.run(with({"launch", "-n", "4", "train", "--config", "run.json"}, settings)), 2) << w.says();
    EXPECT_NE(w.says().find(says), std::string::npos) << w.says();
  }
}

}  // namespace
}  // namespace ft::test
