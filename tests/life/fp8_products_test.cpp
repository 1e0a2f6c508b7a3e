// Training with products in FP8, LoRA and full, tested from outside: losses near bfloat16's, the same bits
// for every stage, recomputed or not, resumed or not, memory as planned, and refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

const Json kFp8Products = {{"lora", {{"r", 4}}},
                           {"model", {{"frozen_dtype", "fp8"}}},
                           {"training", {{"bf16", true}, {"fp8", true}}}};
const Json kFullFp8 = {{"finetuning_type", "full"}, {"training", {{"bf16", true}, {"fp8", true}}}};
const std::string kResult = "out/adapter_model.safetensors", kFullResult = "out/model.safetensors";

TEST(Fp8Products, LossesAreNearThoseOfBf16) {
  for (const char* model : {"llama", "qwen3", "gemma2"}) {
    const std::vector<std::string> steps = {"training.max_steps=20"};
    const Workplace w(model, kFp8Products);
    std::vector<std::string> plain = steps;
    plain.insert(plain.end(), {"training.fp8=false", "model.frozen_dtype=auto", "training.output_dir=plain"});
    ASSERT_EQ(w.train(steps), 0) << w.says();
    ASSERT_EQ(w.train(plain), 0) << w.says();
    const std::vector<double> fp8 = losses(w / "out"), bf16 = losses(w / "plain");
    ASSERT_EQ(fp8.size(), 20u);
    EXPECT_NE(fp8, bf16);
    for (std::size_t i = 0; i < fp8.size(); ++i)
      EXPECT_NEAR(fp8[i], bf16[i], 0.02 * bf16[i]) << model << " step " << i;
  }
}

TEST(Fp8Products, AreNotTheProductsOfTheFp8Base) {
  const Workplace w("llama", kFp8Products);
  ASSERT_EQ(w.train({"training.max_steps=2"}), 0) << w.says();
  ASSERT_EQ(w.train({"training.max_steps=2", "training.fp8=false", "training.output_dir=base"}), 0)
      << w.says();
  EXPECT_NE(losses(w / "out"), losses(w / "base"));
}

TEST(Fp8Products, RecomputationChangesNoBit) {
  const Workplace w("llama", kFp8Products);
  ASSERT_EQ(w.train({"training.gradient_checkpointing=true"}), 0) << w.says();
  const std::string whole = contents(w / kResult);
  ASSERT_FALSE(whole.empty());
  for (const char* how : {"false", "auto", "offload"}) {
    ASSERT_EQ(w.train({std::string("training.gradient_checkpointing=") + how, "--overwrite"}), 0) << w.says();
    EXPECT_TRUE(contents(w / kResult) == whole) << how;
  }
}

TEST(Fp8Products, AResumedRunHasTheSameBits) {
  const Workplace w("llama", kFp8Products);
  ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=3"}), 0) << w.says();
  const std::string whole = contents(w / kResult);
  ASSERT_FALSE(whole.empty());
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-3"}), 0) << w.says();
  EXPECT_TRUE(contents(w / kResult) == whole);
  EXPECT_NE(w.train({"training.resume_from_checkpoint=out/checkpoint-3", "training.fp8=false"}), 0);
  EXPECT_NE(w.says().find("training.fp8"), std::string::npos) << w.says();
}

TEST(Fp8Products, StagesTrainEqually) {
  const std::vector<std::string> steps = {"training.max_steps=6"};
  const Result want = result_of("llama", kFp8Products, 2, 0, 1, steps);
  ASSERT_EQ(want.losses.size(), 6u);
  for (const int stage : {1, 3}) {
    const Result got = result_of("llama", kFp8Products, 2, stage, 1, steps);
    EXPECT_EQ(got.losses, want.losses) << stage;
    EXPECT_TRUE(got.weights == want.weights) << stage;
  }
}

TEST(Fp8Products, MemoryIsAsPlanned) {
  for (const auto& [settings, recompute] :
       {std::pair{kFp8Products, "true"}, {kFp8Products, "false"}, {kFullFp8, "true"}, {kFullFp8, "false"}}) {
    const Workplace w("llama", settings);
    const std::string how = std::string("training.gradient_checkpointing=") + recompute;
    ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", how}), 0) << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    ASSERT_EQ(w.train({how}), 0) << w.says();
    expect_planned(planned, rows(w / "out/log.jsonl").back().at("memory"));
  }
}

// mixtral has routers, gpt2 weights that are stored inputs first.
TEST(Fp8Products, OfFullFineTuningAreNearThoseOfBf16) {
  for (const char* model : {"llama", "gpt2", "mixtral", "gemma2"}) {
    const Workplace w(model, kFullFp8);
    ASSERT_EQ(w.train({"training.max_steps=10"}), 0) << w.says();
    ASSERT_EQ(w.train({"training.max_steps=10", "training.fp8=false", "training.output_dir=plain"}), 0)
        << w.says();
    const std::vector<double> fp8 = losses(w / "out"), bf16 = losses(w / "plain");
    ASSERT_EQ(fp8.size(), 10u);
    EXPECT_NE(fp8, bf16);
    for (std::size_t i = 0; i < fp8.size(); ++i)
      EXPECT_NEAR(fp8[i], bf16[i], 0.02 * bf16[i]) << model << " step " << i;
  }
}

TEST(Fp8Products, OfFullFineTuningAreTheSameInEveryStageAndRecomputed) {
  const std::vector<std::string> steps = {"training.max_steps=4"};
  const Result want = result_of("llama", kFullFp8, 2, 0, 1, steps);
  ASSERT_EQ(want.losses.size(), 4u);
  for (const int stage : {1, 2, 3}) {
    const Result got = result_of("llama", kFullFp8, 2, stage, 1, steps);
    EXPECT_EQ(got.losses, want.losses) << stage;
    EXPECT_TRUE(got.weights == want.weights) << stage;
  }
  const Workplace w("llama", kFullFp8);
  ASSERT_EQ(w.train({"training.gradient_checkpointing=true"}), 0) << w.says();
  const std::string whole = contents(w / kFullResult);
  ASSERT_FALSE(whole.empty());
  ASSERT_EQ(w.train({"training.gradient_checkpointing=false", "--overwrite"}), 0) << w.says();
  EXPECT_TRUE(contents(w / kFullResult) == whole);
}

// The first loss of full fine-tuning is that of the same model with weights in FP8 and an adapter of zeros.
TEST(Fp8Products, OfFullFineTuningBeginAsThoseOfAnFp8Base) {
  const Workplace w("llama", kFp8Products);
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  const Workplace full("llama", kFullFp8);
  ASSERT_EQ(full.train({"training.max_steps=1"}), 0) << full.says();
  EXPECT_EQ(losses(full / "out"), losses(w / "out"));
}

TEST(Fp8Products, SkippedLinearsAreInBf16) {
  for (const Json& settings : {kFp8Products, kFullFp8}) {
    const Workplace w("llama", settings);
    const auto loss = [&](const std::string& skip, const std::string& out) {
      EXPECT_EQ(w.train({"training.max_steps=1", "training.fp8_skip=" + skip, "training.output_dir=" + out}),
                0)
          << w.says();
      return losses(w / out);
    };
    const auto none = loss("[]", "none"), first = loss("[\"layers.0\"]", "first"),
               by_pattern = loss("[\"re:model.layers.0\"]", "pattern"),
               other = loss("[\"layers.1\"]", "other");
    EXPECT_NE(none, first);
    EXPECT_EQ(first, by_pattern);
    EXPECT_NE(first, other);
  }
}

TEST(Fp8Products, AreRefusedByName) {
  const Workplace w("llama", kFp8Products);
  const auto refused = [&](const std::vector<std::string>& settings, const std::string& text) {
    EXPECT_EQ(w.train(settings), 2) << w.says();
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused({"training.bf16=false"},
          "training.fp8: other products and results are in bfloat16; set training.bf16=true");
  refused(
      {"model.frozen_dtype=auto"},
      "training.fp8: no weight of the model is in FP8; set model.frozen_dtype=fp8, or training.fp8=false");
  refused({"training.fp8_skip=[\"layers.7\"]"},
          "is named by \"layers.7\"; leave it out, or name one as in model.layers.0");
  refused({"training.fp8_skip=[\"model\"]"}, "training.fp8_skip: leaves no linear to training.fp8");
  refused({"training.fp8_skip=[\"re:(\"]"}, "training.fp8_skip: \"(?:().*\" is not a regular expression");
  refused({"training.fp8=false", "training.fp8_skip=[\"layers.0\"]"},
          "training.fp8_skip: has no effect without training.fp8=true");
  refused(
      {"model.frozen_dtype=auto", "model.model_name_or_path=" + source_path("tests/golden/fp8/block")},
      "has one for each block of 128 x 128; add \"model.layers.0.self_attn.q_proj\" to training.fp8_skip, or "
      "set training.fp8=false");
}

}  // namespace
}  // namespace ft::test
