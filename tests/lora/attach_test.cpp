// The modules of a LLaMA that a configuration matches, and the messages if it matches none. The golden cases
// of tests/models show that the rules are PEFT's.
#include "lora/attach.h"

#include <gtest/gtest.h>

#include "lora/kinds.h"
#include "lora/matching.h"
#include "models/registry.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft::lora {
namespace {

const std::string kConfig = source_path("tests/golden/models/llama/model/config.json");

std::vector<std::string> adapted(const LoraConfig& config, const Origin& origin = {"lora."}) {
  const MadeModel made = make_model(kConfig, DType::f32);
  return attach(*made.model, config, DType::f32, origin).linears;
}

std::string mistake(const LoraConfig& config, const Origin& origin = {"lora."}) {
  try {
    adapted(config, origin);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, origin.exit);
    return e.what();
  }
  return "no mistake";
}

using Names = std::vector<std::string>;

std::vector<std::string> warnings(const LoraConfig& config) {
  const MadeModel made = make_model(kConfig, DType::f32);
  return attach(*made.model, config, DType::f32, {"lora."}).warnings;
}

TEST(Attach, OftNeedsBlocksOfTwoInputsAndNotesOtherSizes) {
  LoraConfig c;
  c.peft_type = &kinds::kOft;
  c.oft_block_size = 2;
  EXPECT_TRUE(warnings(c).empty());
  c.oft_block_size = 5;  // linears have 32 and 30 inputs
  const auto notes = warnings(c);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "lora.oft_block_size: is 5, which does not divide 32 inputs; their blocks have 4, as in PEFT");
  c.target_modules = Names{"embed_tokens", "q_proj"};
  EXPECT_EQ(mistake(c),
            "lora.target_modules: an adapter of model.embed_tokens: not with peft_type oft; leave it out");
}

TEST(Attach, ABiasOfBGoesWithPlainLoraOnly) {
  LoraConfig c;
  c.lora_bias = true;
  EXPECT_EQ(mistake(c), "no mistake");
  c.init_lora_weights = LoraInit::gaussian;
  EXPECT_EQ(mistake(c), "lora.lora_bias: only with init_lora_weights true and false");
  c.init_lora_weights = LoraInit::random_b;
  c.use_dora = true;
  EXPECT_EQ(mistake(c), "lora.lora_bias: not with use_dora; leave one of the two out");
  c.use_dora = false;
  c.target_modules = Names{"embed_tokens", "q_proj"};
  EXPECT_EQ(
      mistake(c),
      "lora.target_modules: an adapter of model.embed_tokens: not with lora_bias; leave one of the two out");
  c.target_modules = Names{"q_proj"};
  c.target_parameters = Names{"up_proj.weight"};
  EXPECT_EQ(mistake(c), "lora.lora_bias: adapters of target_parameters have none; leave it out");
}

TEST(Attach, TargetsThatMatchNothingAreNamed) {
  LoraConfig c;
  c.target_modules = Names{"q_proj", "query", "dense"};
  EXPECT_EQ(mistake(c),
            "lora.target_modules: nothing is called \"query dense\"; linears of this model: q_proj "
            "k_proj v_proj o_proj gate_proj up_proj down_proj lm_head");
  c.target_modules = "model\\.decoder.*";
  EXPECT_TRUE(mistake(c).starts_with("lora.target_modules: nothing is called \"model\\.decoder.*\""))
      << mistake(c);
}

TEST(Attach, AnAdapterMayNameMoreThanTheModelHas) {
  const Origin adapter{"a/adapter_config.json: ", Exit::input, false};
  LoraConfig c;
  c.target_modules = Names{"q_proj", "query", "dense"};
  for (const std::string& name : adapted(c, adapter)) EXPECT_TRUE(name.ends_with(".q_proj")) << name;
  c.target_modules = Names{"query", "dense"};
  EXPECT_TRUE(mistake(c, adapter)
                  .starts_with("a/adapter_config.json: target_modules: nothing is called "
                               "\"query dense\""))
      << mistake(c, adapter);
}

// A text is a regular expression for complete names, as in PEFT. The message shows the list that was probably
// meant.
TEST(Attach, ATextMatchesCompleteNamesOnly) {
  LoraConfig c;
  c.target_modules = "q_proj";
  EXPECT_TRUE(mistake(c).starts_with(
      "lora.target_modules: nothing is called \"q_proj\": a text is a regular expression for complete names, "
      "as in PEFT; for the ends of names write the list [\"q_proj\"]; linears"))
      << mistake(c);
  c.target_modules = "q_proj, v_proj";
  EXPECT_NE(mistake(c).find(R"(["q_proj","v_proj"])"), std::string::npos) << mistake(c);
}

TEST(Attach, PatternsThatFitNothingAreNamed) {
  LoraConfig c;
  c.target_modules = Names{"q_proj", "v_proj"};
  c.rank_pattern = {{"nothing_here", 2}, {"q_proj", 3}, {"k_proj", 4}};
  c.alpha_pattern = {{"^q_proj", 100}, {R"(model\.layers\.0\..*v_proj)", 5}};
  c.exclude_modules = Names{"no_such", "layers.1.self_attn.q_proj", "norm"};
  EXPECT_EQ(warnings(c),
            (Names{R"(lora.rank_pattern: "nothing_here" fits no module and has no effect)",
                   R"(lora.rank_pattern: "k_proj" fits no module that gets an adapter and has no effect)",
                   R"(lora.alpha_pattern: "^q_proj" fits no module and has no effect)",
                   R"(lora.exclude_modules: "no_such" fits no module and excludes nothing)"}));
  c = {};
  c.exclude_modules = "q_proj";
  EXPECT_EQ(
      warnings(c),
      (Names{
          "lora.exclude_modules: \"q_proj\" fits no module and excludes nothing: a text is a regular "
          "expression for complete names, as in PEFT; for the ends of names write the list [\"q_proj\"]"}));
  c = {};
  c.ensure_weight_tying = true;
  EXPECT_EQ(warnings(c).size(), 1u);
}

// Syntax that Python's re has and ECMAScript's regular expressions do not have.
TEST(Attach, ExpressionsArePythons) {
  LoraConfig c;
  c.target_modules = R"(model\.layers\.(?P<layer>\d+)\..*(?<!k_)(?<!v_)proj)";
  for (const std::string& name : adapted(c))
    EXPECT_FALSE(name.ends_with("k_proj") || name.ends_with("v_proj")) << name;
  EXPECT_EQ(adapted(c).size() % 5, 0u);
}

TEST(Attach, SomethingIsLeft) {
  LoraConfig c;
  c.exclude_modules = Names{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  EXPECT_TRUE(mistake(c).starts_with(
      "lora.exclude_modules, layers_to_transform and layers_pattern leave no linear to adapt"))
      << mistake(c);
  c = {};
  c.layers_to_transform = {77};
  EXPECT_TRUE(mistake(c).starts_with(
      "lora.exclude_modules, layers_to_transform and layers_pattern leave no linear to adapt"))
      << mistake(c);
}

// The layer is the first number in a name, and a target that is a complete name matches in any layer, as in
// PEFT.
TEST(Attach, LayersAreCountedByTheFirstNumber) {
  EXPECT_EQ(layer_of("model.layers.11.mlp.up_proj"), 11);
  EXPECT_EQ(layer_of("encoder.block.3.layer.0.SelfAttention.q"), 3);
  EXPECT_EQ(layer_of("a.3.b.7.c"), 7);
  for (const char* none : {"lm_head", "", "model.layers.3", "a.b.c", "a.b.3x.c", "a.b.-3.c", "a.b..c"})
    EXPECT_EQ(layer_of(none), -1) << none;
  LoraConfig c;
  c.target_modules = Names{"q_proj", "lm_head"};
  c.layers_to_transform = {1};
  EXPECT_EQ(adapted(c), (Names{"model.layers.1.self_attn.q_proj", "lm_head"}));
  const std::string t5 = source_path("tests/golden/models/t5/model/config.json");
  c.target_modules = Names{"SelfAttention.q", "EncDecAttention.v"};
  c.layers_to_transform = {0};
  const MadeModel made = make_model(t5, DType::f32);
  EXPECT_EQ(attach(*made.model, c, DType::f32, {"lora."}).linears,
            (Names{"encoder.block.0.layer.0.SelfAttention.q", "decoder.block.0.layer.0.SelfAttention.q",
                   "decoder.block.0.layer.1.EncDecAttention.v"}));
}

// Biases are parameters whose name ends in "bias", as in PEFT 0.21; 0.18 trained
// relative_attention_bias.weight too.
TEST(Attach, BiasesEndInBias) {
  LoraConfig c;
  c.target_modules = Names{"q"};
  c.bias = LoraBias::all;
  const MadeModel t5 = make_model(source_path("tests/golden/models/t5/model/config.json"), DType::f32);
  EXPECT_TRUE(attach(*t5.model, c, DType::f32, {"lora."}).whole.empty());
}

TEST(Attach, MissIsForLinearsOnly) {
  LoraConfig c;
  c.peft_type = &kinds::kMiss;
  c.target_modules = Names{"q_proj", "embed_tokens"};
  EXPECT_EQ(mistake(c),
            "lora.target_modules: an adapter of model.embed_tokens: not with peft_type miss; leave it out");
  c.target_modules = Names{"q_proj"};
  c.r = 33;
  EXPECT_EQ(mistake(c),
            "lora.r: is 33, and for model.layers.0.self_attn.q_proj (32 x 32) MiSS needs an r of at most 32");
  c.peft_type = &kinds::kShira;
  EXPECT_EQ(
      mistake(c),
      "lora.r: is 33, and for model.layers.0.self_attn.q_proj (32 x 32) SHiRA needs an r of at most 16");
  c.peft_type = &kinds::kMiss;
  c.r = 8;
  c.target_modules = Names{"c_attn"};
  const MadeModel gpt2 = make_model(source_path("tests/golden/models/gpt2/model/config.json"), DType::f32);
  EXPECT_EQ(test::error_of([&] { attach(*gpt2.model, c, DType::f32, {"lora."}); }),
            "2 lora.peft_type: MiSS is not for transformer.h.0.attn.c_attn, whose weight is stored inputs "
            "first; PEFT does not adapt it either. Leave it out of target_modules, or set lora");
}

TEST(Attach, HiraIsForFrozenWeights) {
  LoraConfig c;
  c.peft_type = &kinds::kHira;
  c.target_modules = Names{"q_proj", "v_proj"};
  c.modules_to_save = {{"q_proj"}};  // the complete name: no adapter
  EXPECT_EQ(mistake(c), "no mistake");
  c.modules_to_save = {{"v_proj", "_proj"}};
  EXPECT_EQ(mistake(c),
            "lora.modules_to_save: trains model.layers.0.self_attn.q_proj, whose HiRA adapter needs a frozen "
            "weight; give complete names of modules, or leave it out of target_modules");
  for (const AdapterKind* kind : {&kinds::kLora, &kinds::kMiss, &kinds::kShira}) {
    c.peft_type = kind;
    c.r = 4;
    EXPECT_EQ(mistake(c), "no mistake") << kind->name;
  }
}

TEST(Attach, RefusesByName) {
  LoraConfig c;
  c.target_modules = "model.(";
  EXPECT_EQ(mistake(c),
            "lora.target_modules: \"model.(\" is not a regular expression: missing closing parenthesis at "
            "character 8");
  c.target_modules = "(.|..|...)*[QZ]";  // would take centuries
  EXPECT_TRUE(mistake(c).starts_with("lora.target_modules: \"(.|..|...)*[QZ]\" takes too long on model."))
      << mistake(c);
  c = {};
  c.rank_pattern = {{"q_proj", 1 << 25}};
  EXPECT_EQ(mistake(c),
            "lora.r: a rank of 33554432 for model.layers.0.self_attn.q_proj; it must be between 1 "
            "and 16777216");
  c = {};
  c.modules_to_save = {{"classifier"}};
  EXPECT_EQ(mistake(c),
            "lora.modules_to_save: nothing is called \"classifier\"; modules of this model: "
            "embed_tokens norm lm_head q_proj k_proj v_proj o_proj gate_proj up_proj down_proj "
            "lm_head");
}

}  // namespace
}  // namespace ft::lora
