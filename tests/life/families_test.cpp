// Each family of models, tested from outside: the plan equals the measurement, recomputation, ranks, stages
// and a resumed run give the same bits, and weights in 4 bits train.
#include <gtest/gtest.h>

#include "tests/life/program.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

const Json kLora = {{"lora", {{"r", 4}}}}, kFull = {{"finetuning_type", "full"}};

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, AreMeasuredAsPlannedAndResumeBitwise) {
  for (const Json& config : {kLora, kFull}) {
    const Workplace w(GetParam(), config);
    ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", "checkpointing.save_strategy=steps"}), 0)
        << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"}), 0) << w.says();
    const Json measured = rows(w / "out/log.jsonl").back().at("memory");
    for (const auto& [name, bytes] : measured.items()) EXPECT_EQ(planned.at(name), bytes) << name;
    const std::string file = config == kFull ? "out/model.safetensors" : "out/adapter_model.safetensors";
    const std::string whole = contents(w / file);
    const std::vector<double> before = losses(w / "out");
    EXPECT_LT(before.back(), before.front());
    ASSERT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-5"}), 0) << w.says();
    EXPECT_TRUE(contents(w / file) == whole);
    EXPECT_EQ(losses(w / "out"), before);
  }
}

// The gradients of a table that is also the head are added in another order if they are sharded.
TEST_P(Families, RanksAndRecomputationTrainEqually) {
  for (const Json& config : {kLora, kFull}) {
    const Result plain = result_of(GetParam(), config, 2, 0, 1, {"training.gradient_checkpointing=false"});
    const Result sharded = result_of(GetParam(), config, 2, 3, 1, {"training.gradient_checkpointing=true"});
    ASSERT_EQ(sharded.losses.size(), plain.losses.size());
    for (std::size_t i = 0; i < plain.losses.size(); ++i)
      EXPECT_NEAR(sharded.losses[i], plain.losses[i], config == kFull ? 1e-6 * plain.losses[i] : 0) << i;
    EXPECT_TRUE(config == kFull || sharded.weights == plain.weights);
  }
}

TEST_P(Families, TrainIn4Bits) {
  const Workplace w(GetParam(), kLora);
  ASSERT_EQ(w.train({"quantization.load_in_4bit=true"}), 0) << w.says();
  EXPECT_LT(losses(w / "out").back(), losses(w / "out").front());
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         testing::Values("gemma2", "gemma3", "phi3", "opt-post", "gpt2", "gpt-neox",
                                         "granite", "olmo2", "smollm3", "mixtral", "qwen2-moe", "qwen35",
                                         "qwen3-next-moe", "deepseek-v3", "deepseek-v2", "glm4-moe-lite",
                                         "glm4-moe", "gpt-oss"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace ft::test
