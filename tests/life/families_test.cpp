// Each family of models, tested from outside: the plan equals the measurement, recomputation, ranks, stages
// and a resumed run give the same bits, and weights in 4 bits train.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/files/safetensors/weights.h"
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

// The gradients of a table that is also the head are added in another order if they are sharded; with a head
// of its own Gemma 4 E has equal bits, too.
TEST_P(Families, RanksAndRecomputationTrainEqually) {
  const double rounding = GetParam() == "gemma4-e" ? 1e-5 : 1e-6;
  for (const Json& config : {kLora, kFull}) {
    const Result plain = result_of(GetParam(), config, 2, 0, 1, {"training.gradient_checkpointing=false"});
    const Result sharded = result_of(GetParam(), config, 2, 3, 1, {"training.gradient_checkpointing=true"});
    ASSERT_EQ(sharded.losses.size(), plain.losses.size());
    for (std::size_t i = 0; i < plain.losses.size(); ++i)
      EXPECT_NEAR(sharded.losses[i], plain.losses[i], config == kFull ? rounding * plain.losses[i] : 0) << i;
    EXPECT_TRUE(config == kFull || sharded.weights == plain.weights);
  }
}

TEST_P(Families, TrainIn4Bits) {
  const Workplace w(GetParam(), kLora);
  ASSERT_EQ(w.train({"quantization.load_in_4bit=true"}), 0) << w.says();
  EXPECT_LT(losses(w / "out").back(), losses(w / "out").front());
}

// ft merge copies what no run trains: the bias of routers, in float32 whatever --dtype says, and a layer's
// factor. The merged model has the losses of base and adapter.
TEST(FamiliesMerge, KeepsConstants) {
  for (const auto& [golden, constant, wide] :
       {std::tuple{"deepseek-v3", "e_score_correction_bias", true}, {"gemma4", "layer_scalar", false}}) {
    Json config = kLora;
    config["data"]["eval_datasets"] = {{{"path", "train.jsonl"}, {"type", "tokenized"}}};
    const Workplace w(golden, config);
    ASSERT_EQ(w.train(), 0) << w.says();
    const auto evaluated = [&](const std::vector<std::string>& more) {
      std::vector<std::string> all{"eval", "--config", "run.json", "--json"};
      all.insert(all.end(), more.begin(), more.end());
      EXPECT_EQ(w.run(all), 0) << w.says();
      return Json::parse(contents(w / "stdout"))["eval_loss"].get<double>();
    };
    for (const std::string dtype : {"float32", "bfloat16"}) {
      ASSERT_EQ(w.run({"merge", "--model", "model", "--adapter", "out", "--output", dtype, "--dtype", dtype}),
                0)
          << w.says();
      const ModelFolder base((w / "model").string()), merged((w / dtype).string());
      int found = 0;
      for (const std::string& name : base.names()) {
        if (name.find(constant) == std::string::npos) continue;
        ++found;
        const bool exact = wide || dtype == "float32";
        EXPECT_EQ(merged.info(name).type, exact ? StoredType::f32 : StoredType::bf16) << name;
        ASSERT_EQ(merged.info(name).shape, base.info(name).shape) << name;
        const auto values = [&](const ModelFolder& from) {
          std::int64_t n = 1;
          for (const std::int64_t d : from.info(name).shape) n *= d;
          std::vector<float> all(static_cast<std::size_t>(n));
          from.read(name, Tensor(reinterpret_cast<std::byte*>(all.data()), DType::f32, {n}));
          return all;
        };
        const std::vector<float> was = values(base), is = values(merged);
        for (std::size_t i = 0; i < was.size(); ++i)
          EXPECT_NEAR(is[i], was[i], exact ? 0 : 0.004 * std::abs(was[i])) << name;
      }
      EXPECT_GT(found, 0) << golden;
    }
    EXPECT_NEAR(evaluated({"model.model_name_or_path=float32", "finetuning_type=full"}),
                evaluated({"--adapter", "out"}), 1e-5)
        << golden;
  }
}

// This base has its routers in 16 bits. The merged model has them in float32, also without --dtype.
TEST(FamiliesMerge, WidensRouters) {
  const Workplace w("deepseek-v3", kLora);
  ASSERT_EQ(w.train(), 0) << w.says();
  ASSERT_EQ(w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged"}), 0) << w.says();
  const ModelFolder base((w / "model").string()), merged((w / "merged").string());
  int wide = 0;
  for (const std::string& name : base.names()) {
    const bool router =
        name.ends_with("mlp.gate.weight") || name.ends_with("mlp.gate.e_score_correction_bias");
    wide += router;
    EXPECT_EQ(base.info(name).type, StoredType::bf16) << name;
    EXPECT_EQ(merged.info(name).type, router ? StoredType::f32 : StoredType::bf16) << name;
  }
  EXPECT_EQ(wide, 2);
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         testing::Values("gemma2", "gemma3", "phi3", "opt-post", "gpt2", "gpt-neox",
                                         "granite", "olmo2", "smollm3", "mixtral", "qwen2-moe", "qwen35",
                                         "qwen3-next-moe", "deepseek-v3", "deepseek-v2", "glm4-moe-lite",
                                         "glm4-moe", "gpt-oss", "gemma4", "gemma4-e", "gemma4-moe"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace ft::test
