// PEFT's conversion of target modules in models with experts. The golden cases lora-mixtral and
// lora-qwen2-moe show that the mathematics and the names are PEFT's.
#include "lora/experts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lora/attach.h"
#include "models/registry.h"
#include "tests/support/source.h"

namespace ft::lora {
namespace {

using Names = std::vector<std::string>;

MadeModel model(const std::string& name) {
  return make_model(source_path("tests/golden/models/" + name + "/model/config.json"), DType::f32);
}

LoraConfig converted(const std::string& name, const Modules& targets) {
  LoraConfig c;
  c.r = 3;
  c.lora_alpha = 6;
  c.target_modules = targets;
  return with_expert_parameters(*model(name).model, c, "lm_head", "lora.", Exit::config);
}

std::string mistake(const std::string& name, const LoraConfig& config) {
  try {
    const MadeModel made = model(name);
    attach(*made.model, with_expert_parameters(*made.model, config, "lm_head", "lora.", Exit::config),
           DType::f32, {"lora."});
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    return e.what();
  }
  return "no mistake";
}

TEST(ExpertTargets, AllLinearIsAttentionRoutersAndExperts) {
  const LoraConfig c = converted("mixtral", "all-linear");
  EXPECT_EQ(std::get<Names>(c.target_modules), (Names{"k_proj", "o_proj", "q_proj", "v_proj"}));
  EXPECT_EQ(c.target_parameters, (Names{"down_proj", "gate.weight", "gate_up_proj"}));
  EXPECT_EQ(c.rank_pattern, (Pattern<std::int64_t>{{".*\\.gate_up_proj", 6}}));
  EXPECT_EQ(c.alpha_pattern, (Pattern<double>{{".*\\.gate_up_proj", 12}}));
}

// PEFT converts no names for Qwen2-MoE: they are names of dense layers and shared experts.
TEST(ExpertTargets, QwensSharedExpertsKeepTheirNames) {
  EXPECT_EQ(std::get<std::string>(converted("qwen2-moe", "all-linear").target_modules), "all-linear");
  for (const Modules& targets : {Modules("all-linear"), Modules(Names{"up_proj"})}) {
    const MadeModel made = model("qwen2-moe");
    const Attached attached = attach(*made.model, converted("qwen2-moe", targets), DType::f32, {"lora."});
    EXPECT_FALSE(attached.single_experts);
    EXPECT_TRUE(std::ranges::count(attached.linears, "model.layers.0.mlp.shared_expert.up_proj") == 1);
    EXPECT_TRUE(std::ranges::count(attached.linears, "model.layers.1.mlp.up_proj") == 1);
    EXPECT_TRUE(std::ranges::count(attached.linears, "model.layers.0.mlp.gate") == 0);
  }
}

// DeepSeek's names of linears in dense layers and shared experts also name the experts; latent attention has
// other names.
TEST(ExpertTargets, DeepSeek) {
  const LoraConfig c = converted("deepseek-v3", "all-linear");
  EXPECT_EQ(std::get<Names>(c.target_modules),
            (Names{"kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "q_a_proj", "q_b_proj"}));
  EXPECT_EQ(c.target_parameters, (Names{"down_proj", "gate.weight", "gate_up_proj"}));
}

// A routers' bias is a buffer in transformers: full fine-tuning does not train it, and counts leave it out.
TEST(ExpertTargets, ABiasForTheChoiceOfExpertsIsConstant) {
  const MadeModel made = model("deepseek-v3");
  train_all(*made.model);
  std::int64_t constants = 0;
  EachParameter each([&](Parameter& p) {
    const bool bias = p.name.ends_with("e_score_correction_bias");
    EXPECT_EQ(p.trainable, !bias) << p.name;
    EXPECT_EQ(p.elements() == 0, bias) << p.name;
    constants += bias;
  });
  made.model->visit(each);
  EXPECT_EQ(constants, 1);
}

// In Qwen3-Next the names mean the experts, not the shared expert; Qwen3.5's names are not converted.
TEST(ExpertTargets, Qwen3NextAndQwen35) {
  const LoraConfig next = converted("qwen3-next-moe", "all-linear");
  EXPECT_EQ(std::get<Names>(next.target_modules),
            (Names{"in_proj_ba", "in_proj_qkvz", "k_proj", "o_proj", "out_proj", "q_proj",
                   "shared_expert_gate", "v_proj"}));
  EXPECT_EQ(next.target_parameters, (Names{"down_proj", "gate.weight", "gate_up_proj"}));
  const MadeModel made = model("qwen35-moe");
  const Attached attached = attach(*made.model, converted("qwen35-moe", "all-linear"), DType::f32, {"lora."});
  const auto count = [&](const char* name) {
    return std::ranges::count(attached.linears, std::string("model.layers.1.") + name);
  };
  for (const char* name :
       {"linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.in_proj_b", "linear_attn.in_proj_a",
        "linear_attn.out_proj", "mlp.shared_expert.down_proj", "mlp.shared_expert_gate"})
    EXPECT_EQ(count(name), 1) << name;
  EXPECT_EQ(count("mlp.gate"), 0);
  EXPECT_TRUE(attached.experts.empty());
}

TEST(ExpertTargets, ListsAndExpressions) {
  EXPECT_EQ(converted("mixtral", Names{"q_proj", "w2"}).target_parameters, Names{"down_proj"});
  EXPECT_EQ(converted("mixtral", ".*w[123]").target_parameters, (Names{"down_proj", "gate_up_proj"}));
  EXPECT_FALSE(converted("mixtral", Names{"q_proj"}).target_parameters);
  EXPECT_EQ(std::get<std::string>(converted("llama", "all-linear").target_modules), "all-linear");
}

TEST(ExpertTargets, MistakesAreNamed) {
  LoraConfig c;
  c.target_modules = Names{"q_proj", "w3"};
  EXPECT_EQ(mistake("mixtral", c),
            "lora.target_modules: w3 and w1 of experts are one matrix, gate_up_proj; name both, or neither");
  c.target_modules = Names{"q_proj"};
  c.target_parameters = Names{"mlp.experts.gate"};
  EXPECT_TRUE(mistake("mixtral", c)
                  .starts_with("lora.target_parameters: nothing is called \"mlp.experts.gate\"; there are "));
  c.target_parameters = Names{"mlp.experts.down_proj"};
  c.lora_dropout = 0.1;
  EXPECT_EQ(mistake("mixtral", c), "lora.lora_dropout: adapters of target_parameters have none; set it to 0");
  c.lora_dropout = 0;
  c.modules_to_save = Names{"gate"};
  EXPECT_TRUE(
      mistake("mixtral", c)
          .starts_with("lora.modules_to_save: PEFT has no model.layers.0.block_sparse_moe.gate.weight"));
  EXPECT_EQ(mistake("qwen2-moe", c), "no mistake");
  c.modules_to_save = Names{"experts"};
  EXPECT_TRUE(
      mistake("qwen2-moe", c)
          .starts_with("lora.modules_to_save: PEFT has no model.layers.0.mlp.experts.0.gate_proj.weight"));
}

TEST(ExpertTargets, OneParameterAloneHasThePlainName) {
  const MadeModel made = model("mixtral");
  LoraConfig c;
  c.target_modules = Names{"q_proj"};
  c.target_parameters = Names{"mlp.experts.gate_up_proj"};
  const Attached attached = attach(*made.model, c, DType::f32, {"lora."});
  const auto all = adapters_of(attached.experts);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0]->a.name, "base_model.model.model.layers.0.mlp.experts.lora_A.weight");
}

}  // namespace
}  // namespace ft::lora
