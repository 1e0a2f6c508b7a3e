// config.json of the families with their own folders: defaults of absent keys, refusals, and the resulting
// tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "models/gemma/config.h"
#include "models/registry.h"
#include "models/rope.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::error_of;

Json base(const std::string& type) {
  if (type == "gpt2")
    return {{"model_type", type}, {"vocab_size", 40}, {"n_embd", 32}, {"n_layer", 2}, {"n_head", 4}};
  Json j{{"model_type", type},     {"vocab_size", 40},         {"hidden_size", 32},
         {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
         {"intermediate_size", 48}};
  if (type == "opt") j["ffn_dim"] = 48;
  return j;
}

MadeModel made(const Json& j) {
  const test::TempFolder folder;
  return make_model(folder.write("config.json", json_text(j)), DType::f32);
}

std::string refusal(const std::string& type, const Json& change) {
  Json j = base(type);
  j.update(change);
  const std::string text = error_of([&] { made(j); });
  const auto at = text.find("config.json");
  return at == std::string::npos ? text : text.substr(0, 2) + text.substr(at);
}

std::map<std::string, Shape> tensors(const Json& j) {
  const MadeModel m = made(j);
  std::map<std::string, Shape> all;
  EachParameter each([&](Parameter& p) { all[p.name] = p.shape; });
  m.model->visit(each);
  return all;
}

TEST(FamilyConfigs, AbsentKeysMeanWhatTransformersAssumes) {
  for (const char* tied : {"opt", "gpt2", "gemma2", "gemma3_text", "smollm3"})
    EXPECT_TRUE(made(base(tied)).info.tied_head) << tied;
  for (const char* untied : {"olmo2", "granite", "phi3", "gpt_neox"})
    EXPECT_FALSE(made(base(untied)).info.tied_head) << untied;
  EXPECT_EQ(made(base("opt")).info.positions, 2048);
  EXPECT_EQ(made(base("gpt2")).info.positions, 1024);
  EXPECT_EQ(made(base("gpt_neox")).info.positions, 0);
  EXPECT_EQ(made(base("gpt_neox")).info.head, "embed_out");
  EXPECT_EQ(made(base("gemma2")).info.norm_offset, 1);
}

TEST(FamilyConfigs, Gemma) {
  const test::TempFolder folder;
  const auto read = [&](Json j, const Json& change) {
    j.update(change);
    return gemma::read_config(folder.write("config.json", json_text(j)));
  };
  const gemma::Config two = read(base("gemma2"), Json::object());
  EXPECT_EQ(two.head_dim, 256);
  EXPECT_EQ(two.padding, 0);
  EXPECT_EQ(read(base("gemma2"), {{"pad_token_id", nullptr}}).padding, -1);
  EXPECT_EQ(two.score_cap, 50);
  EXPECT_EQ(two.logit_cap, 30);
  EXPECT_EQ(two.windows, (std::vector<std::int64_t>{4096, 0}));
  EXPECT_FALSE(two.local_rope);
  const gemma::Config uncapped =
      read(base("gemma2"), {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}});
  EXPECT_EQ(uncapped.score_cap, 0);
  EXPECT_EQ(uncapped.logit_cap, 0);
  const gemma::Config three = read(base("gemma3_text"), {{"attn_logit_softcapping", 5.0},
                                                         {"final_logit_softcapping", 7.0},
                                                         {"sliding_window_pattern", 2},
                                                         {"rope_local_base_freq", 500.0}});
  EXPECT_EQ(three.score_cap, 0) << "transformers does not apply it";
  EXPECT_EQ(three.logit_cap, 7);
  EXPECT_EQ(three.windows, (std::vector<std::int64_t>{4096, 0}));
  EXPECT_EQ(three.rope.theta, 1e6);
  EXPECT_EQ(three.local_rope->theta, 500);
}

TEST(FamilyConfigs, Tensors) {
  auto opt = base("opt");
  opt["word_embed_proj_dim"] = 24;
  opt["max_position_embeddings"] = 10;
  const auto of_opt = tensors(opt);
  EXPECT_EQ(of_opt.at("model.decoder.embed_positions.weight"), (Shape{12, 32}));
  EXPECT_EQ(of_opt.at("model.decoder.project_in.weight"), (Shape{32, 24}));
  EXPECT_EQ(of_opt.at("model.decoder.project_out.weight"), (Shape{24, 32}));
  EXPECT_TRUE(of_opt.contains("model.decoder.final_layer_norm.bias"));
  opt["do_layer_norm_before"] = false;
  opt["layer_norm_elementwise_affine"] = false;
  EXPECT_FALSE(tensors(opt).contains("model.decoder.final_layer_norm.bias"));
  EXPECT_FALSE(tensors(opt).contains("model.decoder.layers.0.self_attn_layer_norm.weight"));
  EXPECT_EQ(tensors(base("gpt2")).at("transformer.h.1.attn.c_attn.weight"), (Shape{32, 96}));
  EXPECT_EQ(tensors(base("phi3")).at("model.layers.1.self_attn.qkv_proj.weight"), (Shape{64, 32}));
  EXPECT_EQ(tensors(base("phi3")).at("model.layers.1.mlp.gate_up_proj.weight"), (Shape{96, 32}));
  EXPECT_EQ(tensors(base("olmo2")).at("model.layers.0.self_attn.k_norm.weight"), (Shape{16}));
}

TEST(FamilyConfigs, Experts) {
  auto mixtral = base("mixtral");
  mixtral["num_local_experts"] = 3;
  const auto of_mixtral = tensors(mixtral);
  EXPECT_EQ(of_mixtral.at("model.layers.1.block_sparse_moe.gate.weight"), (Shape{3, 32}));
  EXPECT_EQ(of_mixtral.at("model.layers.1.block_sparse_moe.experts.2.w2.weight"), (Shape{32, 48}));
  auto qwen = base("qwen3_moe");
  qwen["num_experts"] = 12;
  qwen["mlp_only_layers"] = {0};
  const auto of_qwen = tensors(qwen);
  EXPECT_EQ(of_qwen.at("model.layers.0.mlp.up_proj.weight"), (Shape{48, 32}));
  EXPECT_EQ(of_qwen.at("model.layers.1.mlp.experts.11.up_proj.weight"), (Shape{768, 32}));
  EXPECT_EQ(tensors(base("qwen2_moe")).at("model.layers.0.mlp.shared_expert.up_proj.weight"),
            (Shape{5632, 32}));
  EXPECT_EQ(tensors(base("olmoe")).at("model.layers.0.mlp.gate.weight"), (Shape{64, 32}));
}

TEST(FamilyConfigs, Qwen3Next) {
  Json next = base("qwen3_next");
  next["num_experts"] = 3;
  next["num_experts_per_tok"] = 2;
  next["full_attention_interval"] = 2;
  next["mlp_only_layers"] = {1};
  const auto of_next = tensors(next);
  EXPECT_EQ(of_next.at("model.layers.0.linear_attn.in_proj_qkvz.weight"), (Shape{12288, 32}));
  EXPECT_EQ(of_next.at("model.layers.0.linear_attn.in_proj_ba.weight"), (Shape{64, 32}));
  EXPECT_EQ(of_next.at("model.layers.0.linear_attn.conv1d.weight"), (Shape{8192, 1, 4}));
  EXPECT_EQ(of_next.at("model.layers.0.mlp.experts.2.up_proj.weight"), (Shape{512, 32}));
  EXPECT_EQ(of_next.at("model.layers.0.mlp.shared_expert_gate.weight"), (Shape{1, 32}));
  EXPECT_EQ(of_next.at("model.layers.1.self_attn.q_proj.weight"), (Shape{2 * 4 * 256, 32}));
  EXPECT_EQ(of_next.at("model.layers.1.mlp.up_proj.weight"), (Shape{48, 32}));
}

TEST(FamilyConfigs, LatentAttention) {
  Json v3 = base("deepseek_v3");
  v3["num_key_value_heads"] = v3["num_attention_heads"];
  v3["first_k_dense_replace"] = 1;
  v3["n_routed_experts"] = 16;
  const auto of_v3 = tensors(v3);
  EXPECT_EQ(of_v3.at("model.layers.0.self_attn.q_a_proj.weight"), (Shape{1536, 32}));
  EXPECT_EQ(of_v3.at("model.layers.0.self_attn.q_b_proj.weight"), (Shape{4 * 192, 1536}));
  EXPECT_EQ(of_v3.at("model.layers.0.self_attn.kv_a_proj_with_mqa.weight"), (Shape{512 + 64, 32}));
  EXPECT_EQ(of_v3.at("model.layers.0.self_attn.kv_b_proj.weight"), (Shape{4 * 256, 512}));
  EXPECT_EQ(of_v3.at("model.layers.0.self_attn.o_proj.weight"), (Shape{32, 4 * 128}));
  EXPECT_EQ(of_v3.at("model.layers.0.mlp.up_proj.weight"), (Shape{48, 32}));
  EXPECT_EQ(of_v3.at("model.layers.1.mlp.gate.e_score_correction_bias"), (Shape{16}));
  EXPECT_EQ(of_v3.at("model.layers.1.mlp.experts.15.up_proj.weight"), (Shape{2048, 32}));
  EXPECT_EQ(of_v3.at("model.layers.1.mlp.shared_experts.down_proj.weight"), (Shape{32, 2048}));

  Json v2 = base("deepseek_v2");
  v2["num_key_value_heads"] = v2["num_attention_heads"];
  v2["num_experts_per_tok"] = 6;
  v2["q_lora_rank"] = nullptr;
  const auto of_v2 = tensors(v2);
  EXPECT_EQ(of_v2.at("model.layers.0.self_attn.q_proj.weight"), (Shape{4 * 192, 32}));
  EXPECT_EQ(of_v2.at("model.layers.0.mlp.shared_experts.up_proj.weight"), (Shape{2 * 1407, 32}));
  EXPECT_FALSE(of_v2.contains("model.layers.0.mlp.gate.e_score_correction_bias"));

  Json flash = base("glm4_moe_lite");
  flash["num_key_value_heads"] = flash["num_attention_heads"];
  const auto of_flash = tensors(flash);
  EXPECT_EQ(of_flash.at("model.layers.1.self_attn.kv_b_proj.weight"), (Shape{4 * 448, 512}));
  EXPECT_TRUE(of_flash.contains("model.layers.0.mlp.up_proj.weight"));
  EXPECT_TRUE(of_flash.contains("model.layers.1.mlp.experts.63.up_proj.weight"));

  Json glm = base("glm4_moe");
  glm["attention_bias"] = glm["use_qk_norm"] = true;
  const auto of_glm = tensors(glm);
  EXPECT_TRUE(of_glm.contains("model.layers.0.self_attn.q_proj.bias"));
  EXPECT_FALSE(of_glm.contains("model.layers.0.self_attn.o_proj.bias"));
  EXPECT_EQ(of_glm.at("model.layers.0.self_attn.q_norm.weight"), (Shape{8}));
}

// QLoRA refuses names of linears that a model does not have.
TEST(FamilyConfigs, RoutersAreNamedWhereThereAreSome) {
  Json qwen = base("qwen3_moe");
  EXPECT_EQ(made(qwen).info.never_quantized, std::vector<std::string>{"mlp.gate"});
  qwen["mlp_only_layers"] = {0, 1};
  EXPECT_TRUE(made(qwen).info.never_quantized.empty());
}

TEST(FamilyConfigs, LatentAttentionRefusesByName) {
  const auto said = [](const char* type, const Json& change) {
    Json all{{"num_key_value_heads", 4}, {"num_experts_per_tok", 2}};
    all.update(change);
    const std::string text = refusal(type, all), file = "3 config.json: ";
    return text.starts_with(file) ? text.substr(file.size()) : text;
  };
  EXPECT_EQ(said("deepseek_v3", Json::object()), "no error");
  EXPECT_EQ(
      said("deepseek_v3", {{"num_key_value_heads", 2}}),
      "num_key_value_heads must be num_attention_heads (4): latent attention has a key for every query, "
      "is 2");
  EXPECT_EQ(said("deepseek_v3", {{"qk_rope_head_dim", 7}}), "qk_rope_head_dim must be even, is 7");
  EXPECT_EQ(said("deepseek_v3", {{"n_group", 7}}),
            "n_group must be a divisor of n_routed_experts (256), is 7");
  EXPECT_EQ(said("deepseek_v3", {{"n_routed_experts", 8}, {"n_group", 8}}),
            "n_group must be a number of groups with at least two experts each, is 8");
  EXPECT_EQ(said("deepseek_v3", {{"topk_group", 9}}), "topk_group must be at most n_group (8), is 9");
  EXPECT_EQ(said("deepseek_v3", {{"topk_group", 1}, {"num_experts_per_tok", 33}}),
            "num_experts_per_tok must be at most the number of experts in topk_group groups (32), is 33");
  EXPECT_EQ(said("deepseek_v3", {{"scoring_func", "softmax"}}),
            "scoring_func must be sigmoid, is \"softmax\"");
  EXPECT_EQ(said("deepseek_v3", {{"topk_method", "greedy"}}), "topk_method must be noaux_tc, is \"greedy\"");
  EXPECT_EQ(said("deepseek_v3", {{"moe_layer_freq", 2}}),
            "moe_layer_freq must be 1: ft has experts in every layer after the first ones, is 2");
  EXPECT_EQ(said("deepseek_v2", {{"topk_method", "noaux_tc"}}),
            "topk_method must be greedy or group_limited_greedy, is \"noaux_tc\"");
  EXPECT_EQ(
      said("deepseek_v2", {{"norm_topk_prob", true}}),
      "norm_topk_prob must be false: transformers does not divide the weights of a V2 model by their sum, "
      "is true");
  EXPECT_EQ(said("glm4_moe_lite", {{"first_k_dense_replace", 2}}),
            "first_k_dense_replace must be 1: other models say so in mlp_layer_types, is 2");
  EXPECT_EQ(said("glm4_moe_lite", {{"mlp_layer_types", {"dense"}}}),
            "mlp_layer_types must be a list with one entry for each layer, is [\"dense\"]");
  EXPECT_EQ(said("glm4_moe_lite", {{"mlp_layer_types", {"dense", "thin"}}}),
            "mlp_layer_types must be a list of sparse and dense, is [\"dense\",\"thin\"]");
}

// The factor of scores with scaled positions equals transformers' yarn_apply_mscale.
TEST(FamilyConfigs, DeepSeeksYarnScalesTheScores) {
  const Rope stretched{.type = Rope::Type::yarn, .factor = 40, .mscale_all_dim = 0.707};
  EXPECT_NEAR(stretched.score_factor(), std::pow(0.1 * 0.707 * std::log(40.0) + 1, 2), 1e-12);
  EXPECT_EQ(Rope{}.score_factor(), 1);
  EXPECT_EQ((Rope{.type = Rope::Type::yarn, .factor = 1, .mscale_all_dim = 1}.score_factor()), 1);
}

// The text model of a file with images has the same tensors as the text model alone.
TEST(FamilyConfigs, Qwen35) {
  Json text = base("qwen3_5_text");
  text["layer_types"] = {"full_attention", "linear_attention"};
  const auto alone = tensors(text);
  EXPECT_EQ(alone.at("model.layers.1.linear_attn.in_proj_qkv.weight"), (Shape{8192, 32}));
  EXPECT_EQ(alone.at("model.layers.1.linear_attn.in_proj_z.weight"), (Shape{4096, 32}));
  EXPECT_EQ(alone.at("model.layers.1.linear_attn.A_log"), (Shape{32}));
  EXPECT_EQ(alone.at("model.layers.1.linear_attn.norm.weight"), (Shape{128}));
  EXPECT_FALSE(alone.contains("model.layers.0.linear_attn.A_log"));
  const Json whole{{"model_type", "qwen3_5"}, {"text_config", text}, {"vision_config", {{"depth", 1}}}};
  EXPECT_EQ(tensors(whole), alone);
  EXPECT_TRUE(made(text).info.note.empty());
  EXPECT_NE(made(whole).info.note.find("vision tower"), std::string::npos);
}

// The large dense model, the small model and the mixture, in files of both generations of transformers, alone
// and inside a larger model.
TEST(FamilyConfigs, Gemma4) {
  Json dense = base("gemma4_text");
  dense.update({{"hidden_size_per_layer_input", 0},
                {"attention_k_eq_v", true},
                {"num_global_key_value_heads", 1},
                {"layer_types", {"sliding_attention", "sliding_attention"}}});
  const auto of_dense = tensors(dense);
  EXPECT_EQ(of_dense.at("model.layers.0.self_attn.v_proj.weight"), (Shape{2 * 256, 32}));
  EXPECT_EQ(of_dense.at("model.layers.1.self_attn.k_proj.weight"),
            (Shape{512, 32}));  // the last layer is full
  EXPECT_FALSE(of_dense.contains("model.layers.1.self_attn.v_proj.weight"));
  EXPECT_EQ(of_dense.at("model.layers.1.layer_scalar"), (Shape{1}));
  EXPECT_FALSE(of_dense.contains("lm_head.weight"));
  Json five = dense;
  for (const char* old : {"num_global_key_value_heads", "global_head_dim"}) five.erase(old);
  five["per_layer_config"] = {{"1", {{"head_dim", 512}, {"num_key_value_heads", 1}}}};
  EXPECT_EQ(tensors(five), of_dense);
  const Json whole{{"model_type", "gemma4"}, {"text_config", dense}, {"vision_config", {{"depth", 1}}}};
  EXPECT_EQ(tensors(whole), of_dense);
  EXPECT_NE(made(whole).info.note.find("images"), std::string::npos);
  EXPECT_TRUE(made(dense).info.note.empty());

  Json small = base("gemma4_text");
  small.update(
      {{"num_hidden_layers", 4},
       {"layer_types", {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}},
       {"num_kv_shared_layers", 2},
       {"use_double_wide_mlp", true},
       {"vocab_size_per_layer_input", 40}});
  const auto of_small = tensors(small);
  EXPECT_EQ(of_small.at("model.embed_tokens_per_layer.weight"), (Shape{40, 4 * 256}));
  EXPECT_EQ(of_small.at("model.per_layer_model_projection.weight"), (Shape{4 * 256, 32}));
  EXPECT_EQ(of_small.at("model.layers.3.per_layer_projection.weight"), (Shape{32, 256}));
  EXPECT_EQ(of_small.at("model.layers.2.mlp.up_proj.weight"), (Shape{96, 32}));
  EXPECT_FALSE(of_small.contains("model.layers.2.self_attn.k_proj.weight"));
  EXPECT_EQ(of_small.at("model.layers.3.self_attn.q_proj.weight"), (Shape{4 * 512, 32}));

  dense.update(
      {{"enable_moe_block", true}, {"num_experts", 3}, {"top_k_experts", 2}, {"moe_intermediate_size", 10}});
  const auto of_mixture = tensors(dense);
  EXPECT_EQ(of_mixture.at("model.layers.0.experts.2.up_proj.weight"), (Shape{10, 32}));
  EXPECT_EQ(of_mixture.at("model.layers.0.router.scale"), (Shape{32}));
  EXPECT_EQ(of_mixture.at("model.layers.0.router.per_expert_scale"), (Shape{3}));
  EXPECT_EQ(of_mixture.at("model.layers.0.mlp.up_proj.weight"), (Shape{48, 32}));
}

TEST(FamilyConfigs, Gemma4IsRefusedWhereItIsNotWhole) {
  const auto refused = [](Json change) {
    change["vocab_size_per_layer_input"] = 40;
    return refusal("gemma4_text", change);
  };
  EXPECT_EQ(refused({{"num_kv_shared_layers", 2}}),
            "3 config.json: num_kv_shared_layers must be below num_hidden_layers (2), is 2");
  EXPECT_EQ(refused({{"num_kv_shared_layers", 1}}),
            "3 config.json: num_kv_shared_layers must be lower: layer 1 is to use the keys of an earlier "
            "full_attention layer, and there is none, is 1");
  EXPECT_EQ(refused({{"use_bidirectional_attention", "all"}}),
            "3 config.json: use_bidirectional_attention must be vision or null: ft trains causal models, is "
            "\"all\"");
  EXPECT_EQ(refused({{"per_layer_config", {{"7", {{"head_dim", 8}}}}}}),
            "3 config.json: per_layer_config.7 must be named after a layer below 2, is an object of 1 key");
  EXPECT_EQ(
      refused({{"per_layer_config", {{"0", {{"sliding_window", 8}}}}}}),
      "3 config.json: per_layer_config.0.sliding_window must be the same for all layers: ft reads head_dim "
      "and num_key_value_heads of a layer, is 8");
  EXPECT_EQ(refused({{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}),
            "3 config.json: rope_parameters.full_attention.rope_type must be default or proportional, is "
            "\"yarn\"");
  EXPECT_EQ(refused({{"enable_moe_block", true}, {"num_experts", 2}, {"top_k_experts", 3}}),
            "3 config.json: top_k_experts must be at most num_experts (2), is 3");
  EXPECT_EQ(refusal("gemma4_text", Json::object()),
            "3 config.json: has no vocab_size_per_layer_input; it must be vocab_size (40)");
}

TEST(FamilyConfigs, UnsupportedKeysAreRefusedByName) {
  EXPECT_EQ(refusal("qwen3_5_text", {{"linear_num_value_heads", 24}}),
            "3 config.json: linear_num_value_heads must be a multiple of linear_num_key_heads (16), is 24");
  EXPECT_EQ(refusal("qwen3_5_text", {{"layer_types", {"linear_attention", "sliding_attention"}}}),
            "3 config.json: layer_types must be a list of linear_attention and full_attention, is "
            "[\"linear_attention\",\"sliding_attention\"]");
  EXPECT_EQ(
      refusal("qwen3_5_text", {{"attn_output_gate", false}}),
      "3 config.json: attn_output_gate must be true: the attention of these models has a gate, is false");
  EXPECT_EQ(refusal("opt", {{"layerdrop", 0.1}}),
            "3 config.json: layerdrop must be 0: ft drops no layers, is 0.1");
  EXPECT_EQ(refusal("opt", {{"activation_function", "tanh"}}),
            "3 config.json: activation_function must be one of silu, swish, gelu, gelu_new, gelu_fast, "
            "gelu_pytorch_tanh, relu, is \"tanh\"");
  EXPECT_EQ(refusal("gpt2", {{"add_cross_attention", true}}),
            "3 config.json: add_cross_attention must be false: ft has no encoder for it, is true");
  EXPECT_EQ(refusal("gpt2", {{"resid_pdrop", 1.0}}),
            "3 config.json: resid_pdrop must be at least 0 and below 1, is 1.0");
  EXPECT_EQ(refusal("gemma2", {{"use_bidirectional_attention", true}}),
            "3 config.json: use_bidirectional_attention must be false: ft trains causal models, is true");
  EXPECT_EQ(
      refusal("mixtral", {{"router_jitter_noise", 0.1}}),
      "3 config.json: router_jitter_noise must be 0: ft does not add noise to the inputs of routers, is 0.1");
  EXPECT_EQ(refusal("olmoe", {{"clip_qkv", 8}}),
            "3 config.json: clip_qkv must be null: ft does not clip queries, keys and values, is 8");
  EXPECT_EQ(refusal("mixtral", {{"num_local_experts", 2}, {"num_experts_per_tok", 3}}),
            "3 config.json: num_experts_per_tok must be at most the number of experts (2), is 3");
  EXPECT_EQ(refusal("smollm3", {{"no_rope_layers", {1}}}),
            "3 config.json: no_rope_layers must be a list with one entry for each layer, is [1]");
  EXPECT_EQ(refusal("granite", {{"residual_multiplier", 0}}),
            "3 config.json: residual_multiplier must be a number above 0, is 0");
  EXPECT_EQ(refusal("phi3", {{"partial_rotary_factor", 0.1}}),
            "3 config.json: partial_rotary_factor must be a part of a head that is a whole number of pairs, "
            "is 0.1");
  EXPECT_EQ(
      refusal("phi3", {{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 2}}}}}),
      "3 config.json: rope_scaling.short_factor must be a list of 4 numbers above 0, one for each rotated "
      "pair, is [1,2]");
  EXPECT_EQ(
      refusal("olmo2", {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}}),
      "3 config.json: rope_parameters.partial_rotary_factor must be 1, is 0.5");
}

}  // namespace
}  // namespace ft
