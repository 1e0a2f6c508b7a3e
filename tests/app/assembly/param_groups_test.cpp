// training.param_groups and training.embedding_learning_rate on a model's weights.
#include "app/assembly/param_groups.h"

#include <gtest/gtest.h>

#include <map>

#include "app/assembly/built_model.h"
#include "engine/core/error.h"
#include "tests/support/source.h"

namespace ft {
namespace {

std::map<std::string, UpdateRule> rules(const std::string& training, const std::string& more = "") {
  const RunConfig c =
      parse_config(R"({"model": {"model_name_or_path": ")" + source_path("tests/golden/models/llama/model") +
                       R"("}, "data": {"datasets": [{"path": "none"}]}, "training": {)" +
                       R"("learning_rate": 1e-3, )" + training + "}" + more + "}",
                   "run.json", "", {});
  const BuiltModel b = build_model(c, Weights::ignore);
  std::map<std::string, UpdateRule> all;
  EachParameter each([&](Parameter& p) {
    if (p.trainable) all[p.name] = p.rule;
  });
  b.model().visit(each);
  return all;
}

constexpr const char* kFull = R"(, "finetuning_type": "full")";

TEST(ParamGroups, TheFirstThatFitsHolds) {
  const auto all = rules(R"("param_groups": [
      {"params": "layers\\.0\\.", "learning_rate": 5e-3, "weight_decay": 0.2},
      {"params": ["embed", "_proj"], "frozen_until_step": 10}])",
                         kFull);
  const UpdateRule first{.rate = 5, .decay = 0.2}, later{.frozen_steps = 9};
  EXPECT_EQ(all.at("model.layers.0.mlp.up_proj.weight"), first);
  EXPECT_EQ(all.at("model.layers.0.input_layernorm.weight"), first);
  EXPECT_EQ(all.at("model.layers.1.mlp.up_proj.weight"), later);
  EXPECT_EQ(all.at("model.embed_tokens.weight"), later);
  EXPECT_EQ(all.at("model.norm.weight"), UpdateRule{});
}

TEST(ParamGroups, IncludeTheAdapter) {
  const auto all = rules(R"("param_groups": [{"params": "lora_B", "learning_rate": 16e-3}])");
  for (const auto& [name, rule] : all)
    EXPECT_EQ(rule.rate, name.find("lora_B") == name.npos ? 1 : 16) << name;
}

TEST(ParamGroups, TheRateOfEmbeddingAndHead) {
  const auto all = rules(R"("embedding_learning_rate": 1e-4)", kFull);
  for (const auto& [name, rule] : all) {
    const bool tokens = name == "model.embed_tokens.weight" || name == "lm_head.weight";
    EXPECT_DOUBLE_EQ(rule.rate, tokens ? 0.1 : 1) << name;
  }
}

// Groups are PEFT's: A and modules_to_save have the plain rate.
TEST(ParamGroups, LoraPlus) {
  const auto all = rules(R"("loraplus_lr_ratio": 16, "weight_decay": 0.1,
                             "param_groups": [{"params": "1\\.self_attn.*lora_B"}])",
                         R"(, "lora": {"target_modules": ["q_proj"], "use_dora": true,
                             "modules_to_save": ["lm_head", "norm"]})");
  const UpdateRule plain{.rate = 1, .decay = 0.1}, fast{.rate = 16, .decay = 0.1};
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj.";
  EXPECT_EQ(all.at(q + "lora_A.weight"), plain);
  EXPECT_EQ(all.at(q + "lora_B.weight"), fast);
  EXPECT_EQ(all.at(q + "lora_magnitude_vector"), fast);
  EXPECT_EQ(all.at("lm_head.weight"), plain);
  EXPECT_EQ(all.at("model.norm.weight"), fast);
  EXPECT_EQ(all.at("base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"), UpdateRule{});
  EXPECT_THROW(rules(R"("loraplus_lr_ratio": 16)", kFull), UserError);
}

TEST(ParamGroups, PatternsWithoutAMatchAreRefused) {
  EXPECT_THROW(rules(R"("param_groups": [{"params": ["q_proj", "quarry_proj"]}])", kFull), UserError);
  EXPECT_THROW(rules(R"("param_groups": [{"params": "("}])", kFull), UserError);
  EXPECT_THROW(rules(R"("param_groups": [{"params": "q_proj", "max_grad_norm": 1}])", kFull), UserError);
  EXPECT_THROW(rules(R"("embedding_learning_rate": 1e-4)"), UserError);
}

}  // namespace
}  // namespace ft
