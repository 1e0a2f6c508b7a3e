// Every family that ft exports as GGUF can be read back as a base model: the keys describe the same model,
// and the weights have its names, shapes, row order and values.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/files/safetensors/weights.h"
#include "models/gguf/gguf_config.h"
#include "models/registry.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

struct FamilyCase {
  const char *name, *architecture;
  Json config;  // differences from kCommon
};
void PrintTo(const FamilyCase& c, std::ostream* out) { *out << c.name; }

const Json kCommon = {{"vocab_size", 40},
                      {"hidden_size", 16},
                      {"intermediate_size", 24},
                      {"num_hidden_layers", 7},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"head_dim", 4},
                      {"max_position_embeddings", 64},
                      {"rms_norm_eps", 1e-5},
                      {"initializer_range", 0.3},
                      {"tie_word_embeddings", false}};
const Json kGptSizes = {
    {"vocab_size", 40}, {"n_embd", 16}, {"n_layer", 2}, {"n_head", 4}, {"n_positions", 64}};
const Json kLongRope = {
    {"type", "longrope"}, {"short_factor", Json::array({1.0})}, {"long_factor", Json::array({3.5})}};

const Json kDeltaNets = {{"head_dim", 8},
                         {"linear_key_head_dim", 4},
                         {"linear_value_head_dim", 4},
                         {"linear_num_key_heads", 2},
                         {"linear_num_value_heads", 6},
                         {"full_attention_interval", 3},
                         {"rope_parameters", {{"rope_theta", 5e4}, {"partial_rotary_factor", 0.5}}}};
const Json kRouted = {{"n_routed_experts", 3},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 8},
                      {"n_shared_experts", 2},
                      {"n_group", 1},
                      {"topk_group", 1},
                      {"first_k_dense_replace", 2},
                      {"routed_scaling_factor", 1.5},
                      {"norm_topk_prob", true}};
const Json kLatent = [] {
  Json all = kRouted;
  all.update({{"num_key_value_heads", 4},
              {"q_lora_rank", 6},
              {"kv_lora_rank", 5},
              {"qk_nope_head_dim", 3},
              {"qk_rope_head_dim", 2},
              {"v_head_dim", 7}});
  return all;
}();
const Json kLatentYarn = {{"rope_type", "yarn"},
                          {"factor", 40.0},
                          {"mscale", 0.75},
                          {"mscale_all_dim", 0.75},
                          {"original_max_position_embeddings", 16}};
const Json kGemma4 = {{"model_type", "gemma4_text"},
                      {"global_head_dim", 8},
                      {"sliding_window", 8},
                      {"hidden_size_per_layer_input", 0},
                      {"layer_types",
                       {"sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
                        "sliding_attention", "sliding_attention", "full_attention"}}};
Json with(Json all, const Json& more) {
  all.update(more);
  return all;
}

// Families whose tensors GGUF cuts otherwise, or whose layers differ.
std::vector<FamilyCase> newer_cases() {
  return {
      {"qwen3_next", "qwen3next",
       with(kDeltaNets, {{"model_type", "qwen3_next"},
                         {"num_experts", 3},
                         {"num_experts_per_tok", 2},
                         {"moe_intermediate_size", 8},
                         {"shared_expert_intermediate_size", 20}})},
      {"gpt_oss",
       "gpt-oss",
       {{"model_type", "gpt_oss"},
        {"num_local_experts", 3},
        {"num_experts_per_tok", 2},
        {"sliding_window", 8}}},
      {"gpt_oss_rounded",
       "gpt-oss",
       {{"model_type", "gpt_oss"},
        {"num_local_experts", 3},
        {"num_experts_per_tok", 2},
        {"sliding_window", 8},
        {"rope_scaling",
         {{"rope_type", "yarn"},
          {"factor", 32.0},
          {"truncate", true},
          {"original_max_position_embeddings", 16}}}}},
      {"gpt_oss_plain",
       "gpt-oss",
       {{"model_type", "gpt_oss"},
        {"num_local_experts", 3},
        {"num_experts_per_tok", 2},
        {"rope_scaling", {{"rope_type", "default"}}}}},
      {"deepseek_v2", "deepseek2",
       with(kLatent, {{"model_type", "deepseek_v2"}, {"topk_method", "greedy"}, {"norm_topk_prob", false}})},
      {"deepseek_v3", "deepseek2",
       with(kLatent, {{"model_type", "deepseek_v3"}, {"rope_scaling", kLatentYarn}})},
      {"deepseek_v3_in_groups", "deepseek2",
       with(kLatent, {{"model_type", "deepseek_v3"},
                      {"q_lora_rank", nullptr},
                      {"n_routed_experts", 6},
                      {"n_group", 3},
                      {"topk_group", 2}})},
      {"glm4_moe_lite", "deepseek2",
       with(kLatent, {{"model_type", "glm4_moe_lite"}, {"first_k_dense_replace", 1}})},
      {"glm4_moe", "glm4moe",
       with(kRouted, {{"model_type", "glm4_moe"},
                      {"attention_bias", true},
                      {"use_qk_norm", true},
                      {"first_k_dense_replace", 1},
                      {"rope_parameters", {{"rope_theta", 5e4}, {"partial_rotary_factor", 0.5}}}})},
      {"gemma4", "gemma4", with(kGemma4, {{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}})},
      {"gemma4_e", "gemma4",
       with(kGemma4, {{"hidden_size_per_layer_input", 4},
                      {"vocab_size_per_layer_input", 40},
                      {"num_kv_shared_layers", 4},
                      {"use_double_wide_mlp", true},
                      {"final_logit_softcapping", 30.0}})},
      {"gemma4_moe", "gemma4",
       with(kGemma4, {{"enable_moe_block", true},
                      {"num_experts", 3},
                      {"top_k_experts", 2},
                      {"moe_intermediate_size", 8}})}};
}

std::vector<FamilyCase> family_cases() {
  return {
      {"llama", "llama", {{"model_type", "llama"}, {"attention_bias", true}, {"mlp_bias", true}}},
      {"mistral", "llama", {{"model_type", "mistral"}, {"sliding_window", nullptr}}},
      {"qwen2", "qwen2", {{"model_type", "qwen2"}}},
      {"qwen3", "qwen3", {{"model_type", "qwen3"}, {"head_dim", 8}}},
      {"gemma2",
       "gemma2",
       {{"model_type", "gemma2"},
        {"query_pre_attn_scalar", 4},
        {"sliding_window", 32},
        {"attn_logit_softcapping", 20.0}}},
      {"gemma2_27b",
       "gemma2",
       {{"model_type", "gemma2"}, {"num_hidden_layers", 46}, {"head_dim", 8}, {"query_pre_attn_scalar", 4}}},
      {"gemma3",
       "gemma3",
       {{"model_type", "gemma3_text"},
        {"query_pre_attn_scalar", 4},
        {"sliding_window", 8},
        {"rope_theta", 5e5},
        {"tie_word_embeddings", true},
        {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}},
      {"phi3", "phi3", {{"model_type", "phi3"}, {"sliding_window", 30}, {"pad_token_id", 0}}},
      {"phi3_long",
       "phi3",
       {{"model_type", "phi3"},
        {"pad_token_id", 0},
        {"partial_rotary_factor", 0.5},
        {"original_max_position_embeddings", 32},
        {"rope_scaling", kLongRope}}},
      {"granite",
       "granite",
       {{"model_type", "granite"},
        {"embedding_multiplier", 12.0},
        {"attention_multiplier", 0.125},
        {"residual_multiplier", 0.25},
        {"logits_scaling", 8.0},
        {"attention_bias", true}}},
      {"olmo2", "olmo2", {{"model_type", "olmo2"}, {"pad_token_id", nullptr}}},
      {"smollm3", "smollm3", {{"model_type", "smollm3"}, {"pad_token_id", nullptr}}},
      {"mixtral",
       "llama",
       {{"model_type", "mixtral"}, {"num_local_experts", 12}, {"num_experts_per_tok", 3}}},
      {"qwen2_moe",
       "qwen2moe",
       {{"model_type", "qwen2_moe"},
        {"num_experts", 3},
        {"num_experts_per_tok", 2},
        {"moe_intermediate_size", 8},
        {"shared_expert_intermediate_size", 20}}},
      {"qwen3_moe",
       "qwen3moe",
       {{"model_type", "qwen3_moe"},
        {"num_experts", 3},
        {"num_experts_per_tok", 2},
        {"norm_topk_prob", true},
        {"moe_intermediate_size", 8}}},
      {"olmoe",
       "olmoe",
       {{"model_type", "olmoe"},
        {"num_experts", 3},
        {"num_experts_per_tok", 2},
        {"num_key_value_heads", 4},
        {"pad_token_id", nullptr}}},
      {"qwen3_5", "qwen35", with(kDeltaNets, {{"model_type", "qwen3_5_text"}})},
      {"qwen3_5_moe", "qwen35moe",
       with(kDeltaNets, {{"model_type", "qwen3_5_moe_text"},
                         {"num_experts", 3},
                         {"num_experts_per_tok", 2},
                         {"moe_intermediate_size", 8},
                         {"shared_expert_intermediate_size", 20}})},
      {"gpt2", "gpt2", {{"model_type", "gpt2"}, {"tie_word_embeddings", true}}},
      {"gpt_neox",
       "gptneox",
       {{"model_type", "gpt_neox"}, {"rotary_pct", 0.5}, {"use_parallel_residual", false}}},
      {"gpt_neox_tied",
       "gptneox",
       {{"model_type", "gpt_neox"}, {"rotary_pct", 0.5}, {"tie_word_embeddings", true}}}};
}

class GgufFamilies : public testing::TestWithParam<FamilyCase> {
 protected:
  static std::vector<float> values(const WeightSource& from, const std::string& name, std::int64_t first,
                                   std::int64_t n) {
    std::vector<float> out(static_cast<std::size_t>(n));
    from.read(name, Tensor(reinterpret_cast<std::byte*>(out.data()), DType::f32, {n}), first);
    return out;
  }
  test::TempFolder folder;
  std::string model = folder / "model", file = folder / "x.gguf";
};
const auto name_of_family = [](const auto& test) { return std::string(test.param.name); };
INSTANTIATE_TEST_SUITE_P(Families, GgufFamilies, testing::ValuesIn(family_cases()), name_of_family);
INSTANTIATE_TEST_SUITE_P(Newer, GgufFamilies, testing::ValuesIn(newer_cases()), name_of_family);

TEST_P(GgufFamilies, AreBasesAgain) {
  Json config = GetParam().config["model_type"] == "gpt2" ? kGptSizes : kCommon;
  config.update(GetParam().config);
  folder.write("config.json", config.dump());
  const Outcome made = run({"init", "--config", folder / "config.json", "--output", model});
  ASSERT_EQ(made.code, 0) << made.err;
  const Outcome written =
      run({"export", "--to", "gguf", "--from", model, "--output", file, "--dtype", "float32"});
  ASSERT_EQ(written.code, 0) << written.err;

  folder.write("again.json", config_of_gguf(GgufFile(file)));
  const GgufModel was = make_gguf_model(model + "/config.json"), is = make_gguf_model(folder / "again.json");
  EXPECT_EQ(is.architecture, GetParam().architecture);
  EXPECT_TRUE(is.keys == was.keys);
  EXPECT_EQ(is.rope_factors.size(), was.rope_factors.size());

  const auto original = std::make_unique<ModelFolder>(model);
  const GgufWeights weights(file, folder / "again.json");
  const ModelInfo info = make_model(folder / "again.json", DType::f32).info;
  const float offset = info.norm_offset;
  if (info.stacks_experts) original->name_as({.stacks = info.stored.stacks});
  for (const std::string& name : weights.names()) {
    const std::string from = original->has(name) ? name : "gpt_neox.embed_in.weight";  // a tied head
    ASSERT_TRUE(original->has(from)) << name;
    const auto shape = original->info(from).shape;
    ASSERT_EQ(weights.info(name).shape, shape) << name;
    std::int64_t n = 1;
    for (const std::int64_t d : shape) n *= d;
    const auto want = values(*original, from, 0, n);
    const bool computed = (offset != 0 && name.ends_with("norm.weight")) || name.ends_with("A_log");
    const float bound = computed ? 5e-7f : 0;
    const auto same = [&](std::int64_t first, std::int64_t count) {
      const auto got = values(weights, name, first, count);
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_NEAR(got[static_cast<std::size_t>(i)], want[static_cast<std::size_t>(first + i)], bound)
            << name << " " << first + i;
    };
    same(0, n);
    same(n / 3, n / 2);  // ranks read parts
  }
}

// llama.cpp multiplies by some weights alone (tests/golden/check_llama_cpp.py): an adapter would be lost.
TEST(GgufAdapters, ThatLlamaCppWouldNotAddAreRefused) {
  struct Adapted {
    const char *name, *module;
    bool lost;
  };
  for (const Adapted& a : {Adapted{"gemma4_e", "model.per_layer_model_projection", true},
                           Adapted{"gemma4_e", "model.layers.0.per_layer_projection", false},
                           Adapted{"deepseek_v3", "model.layers.1.self_attn.q_a_proj", true},
                           Adapted{"deepseek_v3", "model.layers.1.self_attn.kv_b_proj", true},
                           Adapted{"deepseek_v3", "model.layers.1.self_attn.o_proj", false}}) {
    const test::TempFolder folder;
    const std::string model = folder / "model", adapter = folder / "adapter", file = folder / "x.gguf";
    const auto cases = newer_cases();
    const auto of =
        std::ranges::find_if(cases, [&](const FamilyCase& c) { return c.name == std::string(a.name); });
    folder.write("config.json", with(kCommon, of->config).dump());
    ASSERT_EQ(run({"init", "--config", folder / "config.json", "--output", model}).code, 0);
    std::filesystem::create_directory(adapter);
    folder.write("adapter/run.json", Json{{"model", {{"model_name_or_path", model}}}}.dump());
    folder.write("adapter/adapter_config.json",
                 Json{{"peft_type", "LORA"}, {"r", 2}, {"target_modules", {a.module}}}.dump());
    const auto shape = ModelFolder(model).info(std::string(a.module) + ".weight").shape;
    std::vector<float> zeros(static_cast<std::size_t>(2 * (shape[0] + shape[1])));
    const std::string at = std::string("base_model.model.") + a.module;
    write_shards(adapter, "adapter_model",
                 {{at + ".lora_A.weight", DType::f32, {2, shape[1]}},
                  {at + ".lora_B.weight", DType::f32, {shape[0], 2}}},
                 [&](const TensorSpec& s) {
                   return Tensor(reinterpret_cast<std::byte*>(zeros.data()), DType::f32, s.shape);
                 });
    const Outcome o = run({"export", "--to", "gguf-lora", "--from", adapter, "--output", file});
    EXPECT_EQ(o.code, a.lost ? 3 : 0) << a.module << ": " << o.err;
    EXPECT_EQ(path_exists(file), !a.lost) << a.module;
    const std::string said =
        adapter + ": target_modules: llama.cpp adds no GGUF adapter to " + a.module + "; use --to gguf\n";
    if (a.lost) {
      EXPECT_EQ(o.err, said);
    }
  }
}

// A weight of several tensors is read again after a read of it failed.
TEST(GgufParts, AFailedReadLeavesNoZeros) {
  const test::TempFolder folder;
  const std::string model = folder / "model", file = folder / "x.gguf";
  folder.write("config.json", with(kCommon, newer_cases()[1].config).dump());
  ASSERT_EQ(run({"init", "--config", folder / "config.json", "--output", model}).code, 0);
  ASSERT_EQ(run({"export", "--to", "gguf", "--from", model, "--output", file, "--dtype", "float32"}).code, 0);
  folder.write("again.json", config_of_gguf(GgufFile(file)));
  const GgufWeights weights(file, folder / "again.json");
  const std::string bytes = read_file(file, 1 << 24);
  const std::vector<std::string> names = weights.names();
  const auto found =
      std::ranges::find_if(names, [](const std::string& n) { return n.ends_with("gate_up_proj"); });
  ASSERT_NE(found, names.end());
  const std::string name = *found;
  const auto read = [&] {
    std::vector<float> out(64);
    weights.read(name, Tensor(reinterpret_cast<std::byte*>(out.data()), DType::f32, {64}), 0);
    return out;
  };
  std::filesystem::resize_file(file, 1);
  EXPECT_THROW(read(), UserError);
  std::ofstream(file, std::ios::binary) << bytes;
  const std::vector<float> values = read();
  EXPECT_TRUE(std::ranges::any_of(values, [](float v) { return v != 0; }));
}

}  // namespace
}  // namespace ft
