// config.json of every family: the meaning of keys, transformers' defaults of absent ones, and refusals.
#include "models/llama/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "tests/engine/files/temp_folder.h"

namespace ft::llama {
namespace {

using test::error_of;
using Windows = std::vector<std::int64_t>;

Json base(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 100},      {"hidden_size", 64},
          {"intermediate_size", 96},  {"num_hidden_layers", 3}, {"num_attention_heads", 4}};
}

Config read(const Json& json) {
  const test::TempFolder folder;
  return read_config(folder.write("config.json", json_text(json)));
}

std::string refusal(Json json, const Json& change) {
  json.update(change);
  const test::TempFolder folder;
  const std::string path = folder.write("config.json", json_text(json));
  const std::string text = error_of([&] { read_config(path); });
  const auto at = text.find("config.json");
  return at == std::string::npos ? text : text.substr(0, 2) + text.substr(at);
}

TEST(LlamaConfig, NegativePaddingCountsFromTheEnd) {
  const auto padding = [](const Json& id) {
    Json j = base("llama");
    j["pad_token_id"] = id;
    return read(j).padding;
  };
  EXPECT_EQ(read(base("llama")).padding, -1);
  EXPECT_EQ(padding(nullptr), -1);
  EXPECT_EQ(padding(0), 0);
  EXPECT_EQ(padding(99), 99);
  EXPECT_EQ(padding(-1), 99);
  EXPECT_EQ(refusal(base("llama"), {{"pad_token_id", 100}}),
            "3 config.json: pad_token_id must be an integer from -100 to 99, is 100");
}

TEST(LlamaConfig, AbsentKeysMeanWhatTransformersAssumes) {
  const Config llama = read(base("llama"));
  EXPECT_EQ(llama.num_key_value_heads, 4);
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_EQ(llama.windows, (Windows{0, 0, 0}));
  EXPECT_FALSE(llama.tie_word_embeddings);
  EXPECT_EQ(llama.rope.theta, 10000);

  Json mistral = base("mistral");
  mistral["num_attention_heads"] = 16;
  EXPECT_EQ(read(mistral).num_key_value_heads, 8);
  EXPECT_EQ(read(mistral).windows, (Windows{4096, 4096, 4096}));
  EXPECT_EQ(read(mistral).max_position_embeddings, 131072);
  mistral["num_key_value_heads"] = nullptr;
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(read(mistral).num_key_value_heads, 16);
  EXPECT_EQ(read(mistral).windows, (Windows{0, 0, 0}));

  Json qwen3 = base("qwen3");
  qwen3["num_key_value_heads"] = 2;
  EXPECT_EQ(read(qwen3).head_dim, 128);
  qwen3["head_dim"] = 24;
  EXPECT_EQ(read(qwen3).head_dim, 24);
}

TEST(LlamaConfig, WindowsOfQwen) {
  Json j = base("qwen2");
  j["num_key_value_heads"] = 4;
  j["sliding_window"] = 8;
  EXPECT_EQ(read(j).windows, (Windows{0, 0, 0}));  // not used
  j["use_sliding_window"] = true;
  EXPECT_EQ(read(j).windows, (Windows{0, 0, 0}));  // max_window_layers is 28
  j["max_window_layers"] = 1;
  EXPECT_EQ(read(j).windows, (Windows{0, 8, 8}));
  j["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(read(j).windows, (Windows{8, 0, 8}));
}

TEST(LlamaConfig, BiasesAndNorms) {
  Json qwen2 = base("qwen2"), qwen3 = base("qwen3"), llama = base("llama");
  qwen2["num_key_value_heads"] = qwen3["num_key_value_heads"] = 4;
  EXPECT_TRUE(read(qwen2).qkv_bias);
  EXPECT_FALSE(read(qwen2).o_bias);
  EXPECT_TRUE(read(qwen3).qk_norm);
  EXPECT_FALSE(read(qwen3).qkv_bias);
  llama["attention_bias"] = true;
  EXPECT_TRUE(read(llama).qkv_bias && read(llama).o_bias);
  EXPECT_FALSE(read(llama).mlp_bias);
}

TEST(LlamaConfig, TheOldScalingWinsIfBothAreGiven) {
  Json j = base("llama");
  j["rope_theta"] = 500.0;
  j["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 900.0}};
  EXPECT_EQ(read(j).rope.theta, 900);
  EXPECT_EQ(read(j).rope.factor, 2);
  j["rope_scaling"] = {{"type", "dynamic"}, {"factor", 3.0}};
  EXPECT_EQ(read(j).rope.type, Rope::Type::dynamic);
  EXPECT_EQ(read(j).rope.theta, 500);
}

TEST(LlamaConfig, RefusesByName) {
  const Json l = base("llama");
  EXPECT_EQ(refusal(l, {{"num_attention_heads", 5}}),
            "3 config.json: num_attention_heads must be a divisor of hidden_size (64), is 5");
  EXPECT_EQ(refusal(l, {{"num_key_value_heads", 3}}),
            "3 config.json: num_key_value_heads must be a divisor of num_attention_heads (4), is 3");
  EXPECT_EQ(refusal(l, {{"rope_scaling", {{"rope_type", "proportional"}, {"factor", 2.0}}}}),
            "3 config.json: rope_scaling.rope_type must be one of default, linear, dynamic, llama3, yarn, "
            "longrope, is \"proportional\"");
  EXPECT_EQ(refusal(l, {{"hidden_act", "quick_gelu"}}),
            "3 config.json: hidden_act must be one of silu, swish, gelu, gelu_new, gelu_fast, "
            "gelu_pytorch_tanh, relu, is "
            "\"quick_gelu\"");
  EXPECT_EQ(refusal(l, {{"hidden_size", -1}}).substr(0, 30), "3 config.json: hidden_size mus");
  EXPECT_EQ(refusal(l, {{"head_dim", 7}}), "3 config.json: head_dim must be even, is 7");
}

}  // namespace
}  // namespace ft::llama
