// Training with products in FP8, tested from outside: losses near bfloat16's, the same bits for every stage,
// recomputed or not, resumed or not, memory as planned, and refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

const Json kFp8Products = {{"lora", {{"r", 4}}},
                           {"model", {{"frozen_dtype", "fp8"}}},
                           {"training", {{"bf16", true}, {"fp8", true}}}};
const std::string kResult = "out/adapter_model.safetensors";

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
  for (const char* recompute : {"true", "false"}) {
    const Workplace w("llama", kFp8Products);
    const std::string how = std::string("training.gradient_checkpointing=") + recompute;
    ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", how}), 0) << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    ASSERT_EQ(w.train({how}), 0) << w.says();
    expect_planned(planned, rows(w / "out/log.jsonl").back().at("memory"));
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
  refused({"model.frozen_dtype=auto", "finetuning_type=full"},
          "training.fp8: multiplies frozen weights in FP8; full fine-tuning has none");
  refused({"model.frozen_dtype=auto", "model.model_name_or_path=" + source_path("tests/golden/fp8/block")},
          "has one for each block of 128 x 128; set training.fp8=false");
}

}  // namespace
}  // namespace ft::test
