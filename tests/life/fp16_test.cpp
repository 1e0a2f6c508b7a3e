// float16, tested from outside: near f32; steps that overflow are skipped by all ranks together, reported,
// and restored by a resumption.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/program.h"
#include "tests/support/source.h"

namespace ft::test {
namespace {

constexpr const char* kFp16 = "training.fp16=true";

// A model with weights so large that its gradients overflow until the loss scale has decreased.
class LoudPlace : public Workplace {
 public:
  explicit LoudPlace(const Json& config) : Workplace("llama", config) {
    const fs::path model = *this / "model", from = fs::read_symlink(model);
    fs::remove(model);
    Json settings = Json::parse(contents(from / "config.json"));
    settings["initializer_range"] = 1.0;
    std::ofstream(*this / "loud.json") << settings.dump(1);
    EXPECT_EQ(
        run({"init", "--config", "loud.json", "--output", "model", "--seed", "3", "--dtype", "float32"}), 0)
        << says();
  }
  std::string weights() const {
    const bool adapter = fs::exists(*this / "out/adapter_model.safetensors");
    return contents(*this / (adapter ? "out/adapter_model.safetensors" : "out/model.safetensors"));
  }
  // Returns the log's rows of steps, without timings and without the key `other`.
  std::vector<Json> steps(const std::string& other = "") const {
    std::vector<Json> all;
    for (Json row : rows(*this / "out/log.jsonl")) {
      row.erase("tokens_per_second");
      row.erase(other);
      if (row.contains("loss")) all.push_back(row);
    }
    return all;
  }
};

std::vector<double> fifty_losses(const Json& config, const std::string& type) {
  const Workplace w("llama", config);
  EXPECT_EQ(w.train({type, "training.max_steps=50"}), 0) << w.says();
  return losses(w / "out");
}

TEST(Fp16Life, FiftyLossesAreNearFloat32s) {
  for (const Json& config : {kLora, kFull, kQlora}) {
    const auto half = fifty_losses(config, kFp16), single = fifty_losses(config, "training.bf16=false");
    ASSERT_EQ(half.size(), 50u);
    for (std::size_t i = 0; i < half.size(); ++i)
      EXPECT_NEAR(half[i], single[i], 3e-3 * single[i]) << "step " << i;
    EXPECT_NE(half, single);
  }
}

TEST(Fp16Life, SkippedStepsAreShownAndLogged) {
  const LoudPlace w(kFull);
  ASSERT_EQ(w.train({kFp16, "logging.progress=plain"}), 0) << w.says();
  EXPECT_NE(
      w.says().find("step 1 is skipped: its gradients overflow float16 at a loss scale of 65536; the next "
                    "has 65536"),
      std::string::npos)
      << w.says();
  const auto steps = w.steps();
  EXPECT_EQ(steps[0]["loss_scale"], 65536);
  EXPECT_EQ(steps[0]["skipped_steps"], 1);
  EXPECT_TRUE(steps[0]["grad_norm"].is_null());
  EXPECT_LT(steps.back()["loss_scale"], 65536);
  EXPECT_LT(steps.back()["skipped_steps"], steps.size() / 2);
  EXPECT_TRUE(steps.back()["grad_norm"].is_number());
  // After a skipped step, the learning rate is unchanged.
  const auto skipped = [&](std::size_t i) { return steps[i]["grad_norm"].is_null(); };
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (skipped(i - 1)) {
      EXPECT_EQ(steps[i]["learning_rate"], steps[i - 1]["learning_rate"]) << i;
    }
}

TEST(Fp16Life, ResumesBitwise) {
  for (const Json& config : {kFull, kLora, kQlora}) {
    const LoudPlace w(config);
    ASSERT_EQ(w.train({kFp16, "checkpointing.save_strategy=steps", "checkpointing.save_steps=5"}), 0)
        << w.says();
    const auto steps = w.steps();
    const std::string whole = w.weights();
    EXPECT_GT(steps.back()["skipped_steps"], 0);
    for (const char* from : {"5", "10"}) {
      ASSERT_EQ(w.train({kFp16, std::string("training.resume_from_checkpoint=out/checkpoint-") + from}), 0)
          << w.says();
      EXPECT_TRUE(w.weights() == whole) << from;
      EXPECT_EQ(w.steps(), steps) << from;
    }
  }
}

TEST(Fp16Life, StagesAndRecomputationTrainEqually) {
  for (const Json& config : {kFull, kQlora}) {
    std::string weights;
    std::vector<Json> steps;
    for (int stage = 0; stage < 4; ++stage) {
      const LoudPlace w(config);
      ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", kFp16,
                       "zero_stage=" + std::to_string(stage),
                       "zero_optimization.stage3_param_persistence_threshold=0",
                       std::string("training.gradient_checkpointing=") + (stage % 2 ? "true" : "false")}),
                0)
          << w.says();
      if (stage == 0) {
        weights = w.weights();
        steps = w.steps("sent_per_step");
        EXPECT_GT(steps.back()["skipped_steps"], 0);
      }
      EXPECT_TRUE(w.weights() == weights) << stage;
      EXPECT_EQ(w.steps("sent_per_step"), steps) << stage;
    }
  }
}

TEST(Fp16Life, OneRankThatAccumulatesIsTwo) {
  const Workplace one("llama", kFull), two("llama", kFull);
  ASSERT_EQ(one.train({kFp16, "training.gradient_accumulation_steps=2"}), 0) << one.says();
  ASSERT_EQ(two.run({"launch", "-n", "2", "train", "--config", "run.json", kFp16, "zero_stage=2"}), 0)
      << two.says();
  const auto a = losses(one / "out"), b = losses(two / "out");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 3e-3 * a[i]) << i;
}

TEST(Fp16Life, T5IsWarnedAbout) {
  const Workplace w("t5", {{"lora", {{"r", 4}, {"target_modules", {"q", "v"}}}},
                           {"data", {{"max_seq_length", nullptr}, {"max_source_length", 64}}}});
  ASSERT_EQ(w.train({kFp16, "logging.progress=plain"}), 0) << w.says();
  EXPECT_NE(w.says().find("training.fp16 with an encoder-decoder of T5's family"), std::string::npos)
      << w.says();
  ASSERT_EQ(w.train({"--overwrite", "training.bf16=true", "logging.progress=plain"}), 0) << w.says();
  EXPECT_EQ(w.says().find("training.fp16"), std::string::npos) << w.says();
}

TEST(Fp16Life, GeneratesAsInFloat32) {
  const Workplace w("llama");
  const auto answer = [&](const char* type) {
    EXPECT_EQ(w.run({"generate", "--model", source_path("configs/demo/base"), "--prompt",
                     "3 + 4 =", "--dtype", type, "generation.max_new_tokens=8"}),
              0)
        << w.says();
    return contents(w / "stdout");
  };
  EXPECT_FALSE(answer("float16").empty());
  EXPECT_EQ(answer("float16"), answer("float32"));
}

}  // namespace
}  // namespace ft::test
