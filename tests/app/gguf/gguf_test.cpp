// ft export --to gguf: names, the order of rows, the vocabulary, and refusals. tests/golden/gguf.txt shows
// that other programs can read the files.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "app/gguf/export.h"
#include "app/gguf/types.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/files/safetensors/weights.h"
#include "models/registry.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const std::string kDemoBase = source_path("configs/demo/base"),
                  kGoldenModels = source_path("tests/golden/models/");

class GgufExport : public testing::Test {
 protected:
  Outcome export_to(const std::string& to, const std::string& from, std::vector<std::string> more = {}) {
    std::vector<std::string> all{"export", "--to", to, "--from", from, "--output", file};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  static std::vector<float> stored(const ModelFolder& model, const std::string& name) {
    std::int64_t n = 1;
    for (const auto d : model.info(name).shape) n *= d;
    std::vector<float> values(static_cast<std::size_t>(n));
    model.read(name, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {n}));
    return values;
  }
  // A golden T5 whose relative positions reach as far as GGUF's readers assume.
  std::string t5(const std::string& golden) {
    std::string model = folder / golden;
    std::filesystem::copy(kGoldenModels + golden + "/model", model);
    Json config = read_json(model + "/config.json");
    config["relative_attention_max_distance"] = 128;
    folder.write(golden + "/config.json", config.dump());
    return model;
  }
  test::TempFolder folder;
  std::string file = folder / "out.gguf";
};

GgufModel described(const std::string& golden) {
  return make_gguf_model(kGoldenModels + golden + "/model/config.json");
}

TEST(GgufNames, AreLlamaCpps) {
  const GgufModel llama = described("llama"), t5 = described("t5-v4");
  EXPECT_EQ(llama.name_of("model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(llama.name_of("lm_head.weight"), "output.weight");
  EXPECT_EQ(llama.name_of("model.layers.17.self_attn.q_proj.bias"), "blk.17.attn_q.bias");
  EXPECT_EQ(llama.name_of("model.layers.0.post_attention_layernorm.weight"), "blk.0.ffn_norm.weight");
  EXPECT_EQ(t5.name_of("shared.weight"), "token_embd.weight");
  EXPECT_EQ(t5.name_of("lm_head.weight"), "output.weight");
  EXPECT_EQ(t5.name_of("encoder.block.11.layer.0.SelfAttention.o.weight"), "enc.blk.11.attn_o.weight");
  EXPECT_EQ(t5.name_of("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            "dec.blk.0.attn_rel_b.weight");
  EXPECT_EQ(t5.name_of("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"),
            "dec.blk.0.cross_attn_rel_b.weight");
  EXPECT_EQ(t5.name_of("decoder.block.3.layer.1.layer_norm.weight"), "dec.blk.3.cross_attn_norm.weight");
  EXPECT_EQ(t5.name_of("decoder.block.3.layer.2.DenseReluDense.wi_0.weight"), "dec.blk.3.ffn_gate.weight");
  EXPECT_EQ(t5.name_of("decoder.final_layer_norm.weight"), "dec.output_norm.weight");
  for (const char* other :
       {"encoder.block.0.layer.1.EncDecAttention.q.weight", "decoder.block.0.weight", "weight",
        "model.layers.0.weight", "model.layers.0.other.weight", "x.weight", "model.norm.scale"}) {
    EXPECT_EQ(llama.name_of(other), std::nullopt) << other;
    EXPECT_EQ(t5.name_of(other), std::nullopt) << other;
  }
}

TEST(GgufNames, RowsOfAHeadTakeTurns) {
  std::vector<float> rows{0, 1, 2, 3, 4, 5, 6, 7};  // two heads of four rows
  using enum GgufModel::Order;
  const GgufModel model{.permuted = {{"q_proj", 2},
                                     {"qkv", 2, thirds, 3},
                                     {"in_proj", 2, groups, 2, 2},
                                     {"out_proj", 2, groups, 2, 0, true}}};
  model.reorder("x.q_proj.weight", rows.data(), 8, 1);
  EXPECT_EQ(rows, (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  rows = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};  // two heads of two queries, keys and values
  model.reorder("x.qkv.bias", rows.data(), 12, 1);
  EXPECT_EQ(rows, (std::vector<float>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  rows = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};  // two rows, then two heads of two parts
  model.reorder("x.in_proj.weight", rows.data(), 10, 1);
  EXPECT_EQ(rows, (std::vector<float>{0, 1, 2, 3, 6, 7, 4, 5, 8, 9}));
  rows = {0, 1, 2, 3, 4, 5, 6, 7};  // two rows of two heads of two parts
  model.reorder("x.out_proj.weight", rows.data(), 2, 4);
  EXPECT_EQ(rows, (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  rows = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::vector<float> other = rows;
  model.reorder("x.v_proj.weight", rows.data(), 12, 1);
  EXPECT_EQ(rows, other);
}

TEST(GgufNames, OfEveryFamily) {
  const auto name = [](const char* golden, const char* of) { return described(golden).name_of(of); };
  EXPECT_EQ(name("granite", "model.layers.1.post_attention_layernorm.weight"), "blk.1.ffn_norm.weight");
  EXPECT_EQ(name("phi3", "model.layers.0.self_attn.qkv_proj.weight"), "blk.0.attn_qkv.weight");
  EXPECT_EQ(name("phi3", "model.layers.0.mlp.gate_up_proj.weight"), "blk.0.ffn_up.weight");
  EXPECT_EQ(name("gpt-neox", "gpt_neox.layers.0.attention.query_key_value.bias"), "blk.0.attn_qkv.bias");
  EXPECT_EQ(name("gpt-neox", "embed_out.weight"), "output.weight");
  EXPECT_THROW(described("opt"), UserError);      // GGUF has no such architecture
  EXPECT_THROW(described("gemma2"), UserError);   // its query_pre_attn_scalar is not head_dim
  EXPECT_THROW(described("smollm3"), UserError);  // not every fourth layer is without rotation
}

// llama.cpp ignores vectors when it counts layers: of two layers, the second one's down projection gets more
// bits.
TEST(GgufTypes, BiasesDoNotCountAsLayers) {
  const GgufModel model{.architecture = "gpt2", .keys = {{"gpt2.block_count", std::uint32_t{2}}}};
  std::vector<GgufTensor> tensors;
  for (const char* layer : {"blk.0.", "blk.1."}) {
    tensors.push_back({.name = std::string(layer) + "ffn_down.bias", .shape = {256}});
    tensors.push_back({.name = std::string(layer) + "ffn_down.weight", .shape = {256, 1024}});
  }
  choose_gguf_types(gguf_form("q4_k_m"), model, tensors);
  const GgmlType want[] = {GgmlType::f32, GgmlType::q4_k, GgmlType::f32, GgmlType::q6_k};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(tensors[i].type, want[i]) << tensors[i].name;
}

TEST_F(GgufExport, AModelComesBack) {
  for (const std::string name : {"llama-gqa", "qwen2", "qwen3", "mistral", "granite", "phi3", "gpt-neox"}) {
    const std::string from = kGoldenModels + name + "/model";
    ASSERT_EQ(export_to("gguf", from, {"--dtype", "float32", "--overwrite"}).code, 0) << name;
    const GgufModel described = make_gguf_model(from + "/config.json");
    const bool tied = make_model(from + "/config.json", DType::f32).info.tied_head;
    const ModelFolder model(from);
    const GgufFile gguf(file);
    std::map<std::string, const GgufTensor*> there;
    for (const GgufTensor& t : gguf.tensors()) there[t.name] = &t;
    for (const std::string& weight : model.names()) {
      if (weight == "lm_head.weight" && tied) continue;
      const GgufTensor* t = there[*described.name_of(weight)];
      ASSERT_NE(t, nullptr) << weight;
      EXPECT_EQ(t->shape, model.info(weight).shape);
      std::vector<float> want = stored(model, weight);
      const std::vector<float> before = want;
      described.reorder(weight, want.data(), t->shape[0], t->elements() / t->shape[0]);
      const bool pairs = name == "llama-gqa" || name == "mistral" || name == "granite";
      EXPECT_EQ(want != before,
                (pairs && (weight.find("q_proj") != weight.npos || weight.find("k_proj") != weight.npos)) ||
                    weight.find("query_key_value") != weight.npos)
          << weight;
      EXPECT_EQ(gguf.read(*t), want) << weight;
    }
    EXPECT_EQ(std::get<std::string>(*gguf.find("general.architecture")), name == "mistral"     ? "llama"
                                                                         : name == "llama-gqa" ? "llama"
                                                                         : name == "gpt-neox"  ? "gptneox"
                                                                                               : name);
    EXPECT_EQ(std::get<std::string>(*gguf.find("tokenizer.ggml.model")), "no_vocab");
  }
}

// Phi-3's factors of long positions are stored unchanged: readers divide the angles by them.
TEST_F(GgufExport, Longrope) {
  const std::string from = kGoldenModels + "phi3-longrope/model";
  ASSERT_EQ(export_to("gguf", from, {"--dtype", "float32"}).code, 0);
  const GgufFile gguf(file);
  std::map<std::string, std::vector<float>> factors;
  for (const GgufTensor& t : gguf.tensors())
    if (t.name.starts_with("rope_factors")) factors[t.name] = gguf.read(t);
  EXPECT_EQ(factors.at("rope_factors_short.weight"), (std::vector<float>{1.0f, 1.1f, 1.3f, 1.7f}));
  EXPECT_EQ(factors.at("rope_factors_long.weight"), (std::vector<float>{1.2f, 2.0f, 4.5f, 9.0f}));
  EXPECT_EQ(std::get<std::uint32_t>(*gguf.find("phi3.rope.scaling.original_context_length")), 16u);
  EXPECT_FLOAT_EQ(std::get<float>(*gguf.find("phi3.rope.scaling.attn_factor")),
                  std::sqrt(1 + std::log(4.0f) / std::log(16.0f)));
  EXPECT_FALSE(gguf.find("phi3.rope.scaling.type"));
}

// Gemma's norms include their 1 in the GGUF weights. GPT-2's weights are transposed: outputs first.
TEST_F(GgufExport, WeightsThatAreStoredOtherwise) {
  const auto with = [&](const char* golden, const Json& change) {
    const std::string to = folder / golden;
    std::filesystem::copy(kGoldenModels + golden + "/model", to);
    Json config = read_json(to + "/config.json");
    config.update(change);
    folder.write(std::string(golden) + "/config.json", config.dump());
    EXPECT_EQ(export_to("gguf", to, {"--dtype", "float32", "--overwrite"}).code, 0) << golden;
    return to;
  };
  const auto exported = [&](const std::string& name) {
    const GgufFile gguf(file);
    for (const GgufTensor& t : gguf.tensors())
      if (t.name == name) return gguf.read(t);
    return std::vector<float>{};
  };
  const ModelFolder gemma(with("gemma2", {{"query_pre_attn_scalar", 12}}));
  std::vector<float> norm = stored(gemma, "model.layers.0.post_feedforward_layernorm.weight");
  for (float& v : norm) v += 1;
  EXPECT_EQ(exported("blk.0.post_ffw_norm.weight"), norm);
  const ModelFolder gpt2(with("gpt2", {{"scale_attn_by_inverse_layer_idx", false}}));
  const std::vector<float> in_first = stored(gpt2, "transformer.h.1.mlp.c_fc.weight"),
                           out_first = exported("blk.1.ffn_up.weight");
  ASSERT_EQ(out_first.size(), in_first.size());
  const std::size_t in = 24, out = in_first.size() / in;
  for (std::size_t i = 0; i < in; ++i)
    for (std::size_t o = 0; o < out; ++o) ASSERT_EQ(out_first[o * in + i], in_first[i * out + o]);
}

// Every weight has its GGUF name, and the exported head is a separate tensor that includes the scale of the
// states.
TEST_F(GgufExport, AT5ComesBack) {
  for (const std::string name : {"t5", "t5-v4", "t5-v11", "t5-v11-v4", "mt5"}) {
    const std::string from = t5(name);
    const GgufModel described = make_gguf_model(from + "/config.json");
    ASSERT_EQ(export_to("gguf", from, {"--dtype", "float32", "--overwrite"}).code, 0) << name;
    const ModelFolder model(from);
    const GgufFile gguf(file);
    std::map<std::string, const GgufTensor*> there;
    for (const GgufTensor& t : gguf.tensors()) there[t.name] = &t;
    EXPECT_EQ(there.size(), model.names().size() + 1);
    for (const std::string& weight : model.names()) {
      const GgufTensor* t = there[*described.name_of(weight)];
      ASSERT_NE(t, nullptr) << weight;
      EXPECT_EQ(t->shape, model.info(weight).shape);
      EXPECT_EQ(gguf.read(*t), stored(model, weight)) << weight;
    }
    const bool scaled = name == "t5" || name == "t5-v4";
    std::vector<float> head = stored(model, "shared.weight");
    for (float& v : head) v *= scaled ? 1 / std::sqrt(24.0f) : 1;
    ASSERT_NE(there["output.weight"], nullptr);
    EXPECT_EQ(gguf.read(*there["output.weight"]), head) << name;
    EXPECT_EQ(std::get<std::string>(*gguf.find("general.architecture")), "t5");
    EXPECT_EQ(std::get<std::uint32_t>(*gguf.find("t5.decoder_block_count")), name == "t5-v11-v4" ? 1u : 2u);
    EXPECT_EQ(std::get<std::uint32_t>(*gguf.find("t5.attention.relative_buckets_count")),
              name == "t5-v4" ? 32u : 8u);
    EXPECT_EQ(std::get<float>(*gguf.find("t5.attention.layer_norm_rms_epsilon")), 1e-6f);
  }
}

TEST_F(GgufExport, AnAdapterOfT5) {
  const std::string model = t5("t5-v11"), adapter = folder / "adapter";
  std::filesystem::copy(kGoldenModels + "lora-t5-v11/adapter", adapter);
  folder.write("adapter/run.json", Json{{"model", {{"model_name_or_path", model}}}}.dump());
  const Outcome o = export_to("gguf-lora", adapter);
  ASSERT_EQ(o.code, 0) << o.err;
  const GgufFile gguf(file);
  EXPECT_EQ(std::get<std::string>(*gguf.find("general.architecture")), "t5");
  const SafetensorsFile weights(adapter + "/adapter_model.safetensors");
  EXPECT_EQ(gguf.tensors().size(), weights.tensors().size());
  for (const GgufTensor& t : gguf.tensors())
    EXPECT_TRUE(t.name.starts_with("enc.blk.") || t.name.starts_with("dec.blk.")) << t.name;
}

TEST_F(GgufExport, TheTokenizerOfT5) {
  const std::string tokenizers = source_path("tests/data/tokenizers/");
  const auto find = [](const GgufKeys& keys, const std::string& name) -> const GgufValue* {
    for (const auto& [key, value] : keys)
      if (key == "tokenizer.ggml." + name) return &value;
    return nullptr;
  };
  const auto flag = [&](const GgufKeys& keys, const char* name) { return std::get<bool>(*find(keys, name)); };
  // the same tokenizer, from a SentencePiece model and from tokenizer.json
  for (const char* kind : {"t5-model", "t5"}) {
    const std::string from = folder / kind;
    std::filesystem::copy(tokenizers + kind, from);
    folder.write(std::string(kind) + "/tokenizer_config.json",
                 R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 5, "eos_token": "</s>",
                     "unk_token": "<unk>", "pad_token": "<pad>"})");
    const auto tokenizer = make_tokenizer(from);
    const std::int64_t size = tokenizer->size();
    const GgufKeys keys = gguf_tokenizer_keys(from, size + 7);
    EXPECT_EQ(std::get<std::string>(*find(keys, "model")), "t5");
    const auto& tokens = std::get<std::vector<std::string>>(*find(keys, "tokens"));
    const auto& scores = std::get<std::vector<float>>(*find(keys, "scores"));
    const auto& types = std::get<std::vector<std::int32_t>>(*find(keys, "token_type"));
    ASSERT_EQ(tokens.size(), static_cast<std::size_t>(size + 7));
    ASSERT_EQ(scores.size(), tokens.size());
    EXPECT_EQ(std::vector<std::string>(tokens.begin(), tokens.begin() + 3),
              (std::vector<std::string>{"<pad>", "</s>", "<unk>"}));
    EXPECT_EQ(std::vector<std::int32_t>(types.begin(), types.begin() + 4),
              (std::vector<std::int32_t>{3, 3, 2, 1}));
    const auto extra = static_cast<std::size_t>(*tokenizer->id("<extra_id_0>"));
    EXPECT_EQ(tokens[extra], "<extra_id_0>");
    EXPECT_EQ(types[extra], 3);
    EXPECT_EQ(types.back(), 5);
    EXPECT_LT(scores[3], 0);
    EXPECT_TRUE(flag(keys, "add_space_prefix"));
    EXPECT_EQ(flag(keys, "remove_extra_whitespaces"),
              std::string(kind) == "t5");  // false in the .model file
    EXPECT_FALSE(flag(keys, "add_bos_token"));
    EXPECT_TRUE(flag(keys, "add_eos_token"));
    EXPECT_GT(std::get<std::vector<std::uint8_t>>(*find(keys, "precompiled_charsmap")).size(), 100u);
    EXPECT_EQ(std::get<std::uint32_t>(*find(keys, "eos_token_id")), 1u);
    EXPECT_THROW(gguf_tokenizer_keys(from, size - 1), UserError);
  }
}

TEST_F(GgufExport, TheTokenizerIsInIt) {
  ASSERT_EQ(export_to("gguf", kDemoBase, {"--dtype", "q8_0"}).code, 0);
  const GgufFile gguf(file);
  const auto& tokens = std::get<std::vector<std::string>>(*gguf.find("tokenizer.ggml.tokens"));
  const auto& types = std::get<std::vector<std::int32_t>>(*gguf.find("tokenizer.ggml.token_type"));
  ASSERT_EQ(tokens.size(), 512u);
  EXPECT_EQ(tokens[0], "<unk>");
  EXPECT_EQ(tokens[1], "<s>");
  EXPECT_EQ(std::vector<std::int32_t>(types.begin(), types.begin() + 4),
            (std::vector<std::int32_t>{2, 3, 3, 6}));
  EXPECT_EQ(std::get<std::uint32_t>(*gguf.find("tokenizer.ggml.eos_token_id")), 2u);
  EXPECT_TRUE(std::get<bool>(*gguf.find("tokenizer.ggml.add_bos_token")));
  const Json seen = Json::parse(run({"inspect", file, "--json"}).out);
  EXPECT_EQ(seen["kind"], "gguf");
  EXPECT_EQ(seen["metadata"]["general.file_type"], 7);
  EXPECT_EQ(seen["tensors"].size(), gguf.tensors().size());
  EXPECT_TRUE(run({"inspect", file})
                  .out.starts_with(file + "  GGUF, 1.87 M parameters, F32 Q8_0, 38 tensors, 1.99 MB\n"));
}

TEST_F(GgufExport, AnAdapter) {
  const std::string adapter = folder / "adapter";
  std::filesystem::copy(kGoldenModels + "lora/adapter", adapter);
  const Json golden = read_json(kGoldenModels + "lora/case.json");
  folder.write(
      "adapter/run.json",
      Json{{"model", {{"model_name_or_path", kGoldenModels + "lora/" + golden["model"].get<std::string>()}}}}
          .dump());
  const Outcome o = export_to("gguf-lora", adapter);
  ASSERT_EQ(o.code, 0) << o.err;
  const GgufFile gguf(file);
  EXPECT_EQ(std::get<std::string>(*gguf.find("general.type")), "adapter");
  EXPECT_EQ(std::get<std::string>(*gguf.find("adapter.type")), "lora");
  EXPECT_TRUE(std::holds_alternative<float>(*gguf.find("adapter.lora.alpha")));
  for (std::size_t i = 0; i < gguf.tensors().size(); i += 2) {
    const GgufTensor &a = gguf.tensors()[i], &b = gguf.tensors()[i + 1];
    EXPECT_TRUE(a.name.ends_with(".weight.lora_a"));
    EXPECT_TRUE(b.name.ends_with(".weight.lora_b"));
    EXPECT_EQ(a.shape[0], b.shape[1]);
  }
}

// Readers look for the base's output.weight, which the file of a model with a tied head does not have.
TEST_F(GgufExport, AnAdapterOfATiedHeadIsRefused) {
  const std::string adapter = folder / "adapter", model = kGoldenModels + "qwen3/model";
  const MadeModel made = make_model(model + "/config.json", DType::f32);
  ASSERT_TRUE(made.info.tied_head);
  const Shape table = made.model->vocabulary().embedding.weight.shape;
  folder.write("adapter/adapter_config.json",
               R"({"peft_type": "LORA", "r": 2, "target_modules": ["lm_head"]})");
  folder.write("adapter/run.json", Json{{"model", {{"model_name_or_path", model}}}}.dump());
  std::vector<float> zeros(static_cast<std::size_t>(2 * table[0]));
  write_shards(adapter, "adapter_model",
               {{"base_model.model.lm_head.lora_A.weight", DType::f32, {2, table[1]}},
                {"base_model.model.lm_head.lora_B.weight", DType::f32, {table[0], 2}}},
               [&](const TensorSpec& s) {
                 return Tensor(reinterpret_cast<std::byte*>(zeros.data()), DType::f32, s.shape);
               });
  const Outcome o = export_to("gguf-lora", adapter);
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("target_modules: an adapter of lm_head"), std::string::npos) << o.err;
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(export_to("gguf", adapter).code, 0);
}

// Keys and tensors that llama.cpp needs or must not get, as tests with it showed.
TEST_F(GgufExport, OwnFactorsTiedHeadsAndWindows) {
  std::filesystem::copy(kGoldenModels + "llama-yarn/model", folder / "yarn");
  Json config = read_json(folder / "yarn/config.json");
  Json& rope = config["rope_parameters"];
  const double usual = 1 + 0.1 * std::log(rope["factor"].get<double>());
  EXPECT_EQ(make_gguf_model(folder / "yarn/config.json").keys.size(), described("llama-yarn").keys.size());
  rope["attention_factor"] = 2 * usual;
  folder.write("yarn/config.json", config.dump());
  const Outcome scaled = export_to("gguf", folder / "yarn");
  ASSERT_EQ(scaled.code, 0) << scaled.err;
  EXPECT_FLOAT_EQ(std::get<float>(*GgufFile(file).find("llama.rope.scaling.attn_factor")), 2);
  std::filesystem::remove(file);

  Json olmo = read_json(kGoldenModels + "olmo2/model/config.json");
  olmo["attention_bias"] = false;
  folder.write("olmo2.json", olmo.dump());
  const GgufModel olmo2 = make_gguf_model(folder / "olmo2.json");
  EXPECT_EQ(olmo2.name_of("model.layers.1.post_attention_layernorm.weight"),
            "blk.1.post_attention_norm.weight");
  EXPECT_EQ(olmo2.name_of("model.layers.1.post_feedforward_layernorm.weight"), "blk.1.post_ffw_norm.weight");

  EXPECT_TRUE(described("gpt-neox").tied_head);  // its readers know no other head
  const Outcome window = export_to("gguf", kGoldenModels + "mistral-window/model");
  ASSERT_EQ(window.code, 0) << window.err;
  EXPECT_NE(window.err.find("warning: GGUF's llama models have no sliding window"), std::string::npos)
      << window.err;
  EXPECT_EQ(described("mistral").ignored_window, 0);
}

TEST_F(GgufExport, UnsupportedModelsAreRefused) {
  const auto said = [&](int code, const Outcome& o) {
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_FALSE(path_exists(file));
    return o.err;
  };
  EXPECT_EQ(said(3, export_to("gguf-lora", kDemoBase)),
            kDemoBase + ": contains no adapter (adapter_config.json); a model is exported with --to gguf\n");
  const std::string dynamic = kGoldenModels + "llama-dynamic/model",
                    gelu = kGoldenModels + "llama-biases-gelu/model";
  EXPECT_EQ(said(3, export_to("gguf", dynamic)),
            dynamic + "/config.json: GGUF has no dynamic positions (rope type dynamic)\n");
  EXPECT_EQ(said(3, export_to("gguf", gelu)),
            gelu + "/config.json: GGUF's llama models have hidden_act silu only\n");
  const std::string biased = kGoldenModels + "olmo2/model", betas = kGoldenModels + "llama-yarn-mscale/model";
  EXPECT_EQ(said(3, export_to("gguf", biased)),
            biased +
                "/config.json: GGUF's olmo2 models have no biases of o_proj and the MLP (attention_bias, "
                "mlp_bias)\n");
  EXPECT_EQ(said(3, export_to("gguf", betas)),
            betas + "/config.json: in GGUF yarn's beta_fast is 32, beta_slow 1 and truncate true\n");
  const std::string bare = kGoldenModels + "gpt-neox-sequential/model";
  EXPECT_EQ(
      said(3, export_to("gguf", bare)),
      bare +
          "/config.json: in GGUF's gptneox models hidden_act is gelu, rope plain and attention_bias true\n");
  const std::string near = kGoldenModels + "t5/model", silu = t5("t5-v11");
  EXPECT_EQ(said(3, export_to("gguf", near)),
            near + "/config.json: relative_attention_max_distance is 12, and GGUF's t5 has 128 only\n");
  Json config = read_json(silu + "/config.json");
  config["feed_forward_proj"] = "gated-silu";
  folder.write("t5-v11/config.json", config.dump());
  EXPECT_EQ(said(3, export_to("gguf", silu)),
            silu + "/config.json: GGUF's t5 has feed_forward_proj relu or gated-gelu only\n");
  const Outcome o = run({"export", "--to", "gguf", "--from", kDemoBase, "--output", folder.path()});
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.err, folder.path() + " is a folder; --output is the GGUF file to make\n");
  folder.write("out.gguf", "mine");
  EXPECT_EQ(export_to("gguf", kDemoBase).err, file + " already exists; --overwrite replaces it\n");
}

TEST_F(GgufExport, ByteLevelBpe) {
  const std::string model = folder / "model";
  std::filesystem::copy(kGoldenModels + "qwen2/model", model, std::filesystem::copy_options::recursive);
  const auto with = [&](const Json& pre, const Json& merges) {
    const Json j = {
        {"version", "1.0"},
        {"added_tokens",
         {{{"id", 3},
           {"content", "<|end|>"},
           {"single_word", false},
           {"lstrip", false},
           {"rstrip", false},
           {"normalized", false},
           {"special", true}}}},
        {"normalizer", nullptr},
        {"pre_tokenizer", pre},
        {"post_processor", nullptr},
        {"decoder",
         {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
        {"model",
         {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", true},  // without effect, but present in files that transformers converts
          {"ignore_merges", false},
          {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}},
          {"merges", merges}}}};
    folder.write("model/tokenizer.json", j.dump());
    std::filesystem::remove(file);
    return export_to("gguf", model);
  };
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Outcome o = with(byte_level, Json::array({Json::array({"a", "b"})}));
  ASSERT_EQ(o.code, 0) << o.err;
  const GgufFile gguf(file);
  const auto& tokens = std::get<std::vector<std::string>>(*gguf.find("tokenizer.ggml.tokens"));
  EXPECT_EQ(tokens[2], "ab");
  EXPECT_EQ(tokens[3], "<|end|>");
  EXPECT_EQ(tokens[4], "[PAD4]");
  EXPECT_EQ(std::get<std::vector<std::int32_t>>(*gguf.find("tokenizer.ggml.token_type"))[3], 3);
  EXPECT_EQ(std::get<std::vector<std::string>>(*gguf.find("tokenizer.ggml.merges")),
            std::vector<std::string>{"a b"});
  EXPECT_EQ(std::get<std::string>(*gguf.find("tokenizer.ggml.pre")), "gpt-2");
  const Json split = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "x+"}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
  EXPECT_TRUE(with(split, Json::array({"a b"}))
                  .err.starts_with(
                      model + "/tokenizer.json: GGUF has no name for its pre_tokenizer; ft knows those of "
                              "llama-bpe, dbrx, "));
}

}  // namespace
}  // namespace ft
