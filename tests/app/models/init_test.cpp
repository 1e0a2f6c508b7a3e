// ft init: the weights are those that transformers would draw, and mistakes are reported before anything is
// created.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/models/init.h"
#include "app/models/quantize.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors.h"
#include "models/registry.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::slurp;
using test::TempFolder;

Json small(const Json& more = Json::object()) {
  Json j = {{"model_type", "llama"},   {"vocab_size", 50},       {"hidden_size", 8},
            {"intermediate_size", 12}, {"num_hidden_layers", 1}, {"num_attention_heads", 2}};
  j.update(more);
  return j;
}

class Init : public testing::Test {
 protected:
  // Makes folder `name` from a configuration, without output on the screen.
  void make(const Json& config, const std::string& name, std::int64_t seed = 42,
            const std::string& dtype = "") {
    const std::string file = folder.write("config.json", json_text(config));
    testing::internal::CaptureStderr();
    const Exit code = init({.config = file, .output = folder / name, .seed = seed, .dtype = dtype});
    EXPECT_NE(testing::internal::GetCapturedStderr().find("made     "), std::string::npos);
    EXPECT_EQ(code, Exit::done);
  }
  // Returns the message about a configuration, without the folder's name. Nothing may be created.
  std::string refusal(const std::string& config, const std::string& output = "out",
                      const std::string& dtype = "") {
    const std::string file = folder.write("config.json", config);
    const std::size_t before = folder.entries();
    std::string text = error_of([&] { init({.config = file, .output = folder / output, .dtype = dtype}); });
    EXPECT_EQ(folder.entries(), before) << text;
    for (std::size_t at = 0; (at = text.find(folder.path() + "/")) != std::string::npos;)
      text.erase(at, folder.path().size() + 1);
    return text;
  }
  std::string refused(const Json& change) { return refusal(json_text(small(change))); }

  SafetensorsFile weights(const std::string& name) const {
    return SafetensorsFile(folder / (name + "/model.safetensors"));
  }
  static std::vector<float> values(const SafetensorsFile& file, const std::string& name) {
    const StoredTensor* t = file.find(name);
    if (!t) throw std::runtime_error("there is no " + name);
    std::vector<float> v(static_cast<std::size_t>(t->numel));
    file.read(*t, Tensor(reinterpret_cast<std::byte*>(v.data()), DType::f32, {t->numel}));
    return v;
  }

  TempFolder folder;
};

TEST_F(Init, NamesShapesAndType) {
  make(small({{"num_key_value_heads", 1}, {"dtype", "bfloat16"}}), "out");
  std::map<std::string, std::string> got;
  const SafetensorsFile file = weights("out");
  for (const StoredTensor& t : file.tensors()) {
    EXPECT_EQ(t.type, StoredType::bf16);
    got[t.name] = shape_text(t.shape);
  }
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(got, (std::map<std::string, std::string>{{"lm_head.weight", "[50, 8]"},
                                                     {"model.embed_tokens.weight", "[50, 8]"},
                                                     {"model.norm.weight", "[8]"},
                                                     {layer + "input_layernorm.weight", "[8]"},
                                                     {layer + "mlp.down_proj.weight", "[8, 12]"},
                                                     {layer + "mlp.gate_proj.weight", "[12, 8]"},
                                                     {layer + "mlp.up_proj.weight", "[12, 8]"},
                                                     {layer + "post_attention_layernorm.weight", "[8]"},
                                                     {layer + "self_attn.k_proj.weight", "[4, 8]"},
                                                     {layer + "self_attn.o_proj.weight", "[8, 8]"},
                                                     {layer + "self_attn.q_proj.weight", "[8, 8]"},
                                                     {layer + "self_attn.v_proj.weight", "[4, 8]"}}));
  const Json config = read_json(folder / "out/config.json");
  EXPECT_EQ(config["dtype"], "bfloat16");
  EXPECT_EQ(config["architectures"], Json({"LlamaForCausalLM"}));
}

TEST_F(Init, ATiedModelHasNoHead) {
  make(small({{"tie_word_embeddings", true}}), "out");
  EXPECT_EQ(weights("out").find("lm_head.weight"), nullptr);
  EXPECT_EQ(weights("out").find("model.embed_tokens.weight")->type, StoredType::f32);
}

// --dtype decides the dtype of the weights, and config.json states it under the key (torch_dtype) that it
// already had.
TEST_F(Init, TheTypeAskedForHolds) {
  make(small({{"torch_dtype", "bfloat16"}}), "out", 42, "float16");
  EXPECT_EQ(weights("out").find("lm_head.weight")->type, StoredType::f16);
  EXPECT_EQ(read_json(folder / "out/config.json")["torch_dtype"], "float16");
  EXPECT_FALSE(read_json(folder / "out/config.json").contains("dtype"));
}

// Routers of DeepSeek's kind and their bias are float32 in every file, as transformers keeps them.
TEST_F(Init, RoutersStayInFloat32) {
  make(small({{"model_type", "deepseek_v3"},
              {"num_hidden_layers", 2},
              {"num_key_value_heads", 2},
              {"q_lora_rank", nullptr},
              {"kv_lora_rank", 4},
              {"qk_nope_head_dim", 2},
              {"qk_rope_head_dim", 2},
              {"v_head_dim", 4},
              {"first_k_dense_replace", 1},
              {"moe_intermediate_size", 4},
              {"n_routed_experts", 4},
              {"num_experts_per_tok", 2},
              {"n_group", 1},
              {"topk_group", 1}}),
       "out", 42, "bfloat16");
  const SafetensorsFile file = weights("out");
  for (const StoredTensor& t : file.tensors())
    EXPECT_EQ(t.type, t.name.find(".mlp.gate.") != t.name.npos ? StoredType::f32 : StoredType::bf16)
        << t.name;
  EXPECT_NE(file.find("model.layers.1.mlp.gate.weight"), nullptr);
  EXPECT_NE(file.find("model.layers.1.mlp.gate.e_score_correction_bias"), nullptr);
}

TEST_F(Init, TheSeedIsTheModel) {
  const auto bytes = [&](const std::string& name) { return slurp(folder / (name + "/model.safetensors")); };
  make(small(), "a", 7);
  make(small(), "b", 7);
  make(small(), "c", 8);
  EXPECT_TRUE(bytes("a") == bytes("b"));
  EXPECT_FALSE(bytes("a") == bytes("c"));
  // Models with the same seed have the same values in another dtype, except for rounding. Models of different
  // depths have the same values in their common layers.
  make(small({{"num_hidden_layers", 2}}), "deep", 7, "bfloat16");
  for (const char* name : {"lm_head.weight", "model.layers.0.mlp.up_proj.weight"}) {
    const std::vector<float> exact = values(weights("a"), name), rounded = values(weights("deep"), name);
    for (std::size_t i = 0; i < exact.size(); ++i)
      ASSERT_NEAR(rounded[i], exact[i], std::abs(exact[i]) / 256) << name << " " << i;
  }
}

// The text model of a configuration with images: rates of decay between 0.01 and 16, norms that count from 1,
// and a configuration of the text model alone.
TEST_F(Init, Qwen35) {
  Json text = small({{"model_type", "qwen3_5_text"},
                     {"layer_types", {"linear_attention"}},
                     {"num_key_value_heads", 2},
                     {"linear_num_key_heads", 2},
                     {"linear_num_value_heads", 64},
                     {"linear_key_head_dim", 4},
                     {"linear_value_head_dim", 4}});
  make({{"model_type", "qwen3_5"}, {"text_config", text}, {"vision_config", {{"depth", 1}}}}, "out");
  const SafetensorsFile file = weights("out");
  const std::string net = "model.layers.0.linear_attn.";
  const std::vector<float> rates = values(file, net + "A_log");
  for (const float v : rates) EXPECT_TRUE(std::log(0.01f) <= v && v <= std::log(16.0f)) << v;
  EXPECT_GT(*std::ranges::max_element(rates), std::log(8.0f));
  EXPECT_LT(*std::ranges::min_element(rates), std::log(4.0f));
  EXPECT_EQ(values(file, net + "dt_bias"), std::vector<float>(64, 1));
  EXPECT_EQ(values(file, net + "norm.weight"), std::vector<float>(4, 1));
  EXPECT_EQ(values(file, "model.norm.weight"), std::vector<float>(8, 0));
  const Json config = read_json(folder / "out/config.json");
  EXPECT_EQ(config["model_type"], "qwen3_5_text");
  EXPECT_EQ(config["architectures"], Json({"Qwen3_5ForCausalLM"}));
}

// Gemma 4: experts of a layer in one tensor, layer scalars of 1; layers that borrow keys have none, and MLPs
// of double width.
TEST_F(Init, Gemma4) {
  const Json text = small({{"model_type", "gemma4_text"},
                           {"num_hidden_layers", 3},
                           {"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
                           {"num_kv_shared_layers", 1},
                           {"use_double_wide_mlp", true},
                           {"num_key_value_heads", 2},
                           {"head_dim", 4},
                           {"global_head_dim", 8},
                           {"hidden_size_per_layer_input", 6},
                           {"vocab_size_per_layer_input", small()["vocab_size"]},
                           {"enable_moe_block", true},
                           {"num_experts", 3},
                           {"top_k_experts", 2},
                           {"moe_intermediate_size", 5}});
  make({{"model_type", "gemma4"}, {"text_config", text}, {"vision_config", {{"depth", 1}}}}, "out");
  const SafetensorsFile file = weights("out");
  const auto shape = [&](const std::string& name) {
    const StoredTensor* t = file.find(name);
    return t ? t->shape : std::vector<std::int64_t>{};
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(shape("model.layers.1.experts.gate_up_proj"), (Sizes{3, 10, 8}));
  EXPECT_EQ(shape("model.layers.1.experts.down_proj"), (Sizes{3, 8, 5}));
  EXPECT_EQ(shape("model.layers.2.experts.0.gate_proj.weight"), Sizes{});
  EXPECT_EQ(shape("model.layers.0.self_attn.k_proj.weight")[0], 16);
  EXPECT_EQ(shape("model.layers.1.self_attn.k_proj.weight")[0], 8);
  EXPECT_EQ(shape("model.layers.2.self_attn.k_proj.weight"), Sizes{});
  EXPECT_EQ(shape("model.layers.2.mlp.up_proj.weight")[0], 2 * shape("model.layers.1.mlp.up_proj.weight")[0]);
  for (const char* ones :
       {"layer_scalar", "router.scale", "router.per_expert_scale", "input_layernorm.weight"})
    for (const float v : values(file, std::string("model.layers.0.") + ones)) EXPECT_EQ(v, 1) << ones;
  EXPECT_EQ(read_json(folder / "out/config.json")["model_type"], "gemma4_text");
}

// Every matrix has the mean, deviation and tails of a normal distribution; no two matrices are equal.
TEST_F(Init, MatricesAreNormal) {
  make(small({{"vocab_size", 1001},
              {"hidden_size", 64},
              {"intermediate_size", 300},
              {"initializer_range", 0.05}}),
       "out");
  const SafetensorsFile file = weights("out");
  std::map<float, std::string> first;
  for (const StoredTensor& t : file.tensors()) {
    if (t.shape.size() < 2) continue;
    const std::vector<float> v = values(file, t.name);
    const auto n = static_cast<double>(v.size());
    double sum = 0, squares = 0, within = 0, beyond = 0;
    for (const double x : v) {
      sum += x;
      squares += x * x;
      within += std::abs(x) < 0.05;
      beyond += std::abs(x) > 0.15;
    }
    const double close = 5 / std::sqrt(n);  // five standard deviations of the estimates
    EXPECT_NEAR(sum / n, 0, 0.05 * close) << t.name;
    EXPECT_NEAR(std::sqrt(squares / n), 0.05, 0.05 * close) << t.name;
    EXPECT_NEAR(within / n, 0.6827, close / 2) << t.name;
    EXPECT_NEAR(beyond / n, 0.0027, 0.052 * close) << t.name;
    EXPECT_TRUE(first.emplace(v[0], t.name).second) << t.name << " is " << first[v[0]];
  }
  EXPECT_EQ(first.size(), 9u);
}

TEST_F(Init, NormsAreOneBiasesAndThePaddingZero) {
  make(small({{"attention_bias", true}, {"mlp_bias", true}, {"pad_token_id", 3}}), "out");
  const SafetensorsFile file = weights("out");
  int biases = 0;
  for (const StoredTensor& t : file.tensors()) {
    if (t.shape.size() > 1) continue;
    const bool bias = t.name.ends_with(".bias");
    biases += bias;
    EXPECT_EQ(values(file, t.name),
              std::vector<float>(static_cast<std::size_t>(t.numel), bias ? 0.0f : 1.0f));
  }
  EXPECT_EQ(biases, 7);
  const std::vector<float> table = values(file, "model.embed_tokens.weight");
  for (std::size_t i = 0; i < table.size(); ++i) EXPECT_EQ(table[i] == 0, i / 8 == 3) << i;
}

// Families whose norms count from 1 (gemma2), whose head has another name (gpt_neox), or whose output
// projections are narrower (gpt2).
TEST_F(Init, OtherFamilies) {
  make(small({{"model_type", "gemma2"}, {"head_dim", 4}, {"num_key_value_heads", 1}}), "gemma");
  EXPECT_EQ(values(weights("gemma"), "model.norm.weight"), std::vector<float>(8, 0.0f));
  make(small({{"model_type", "gpt_neox"}, {"rotary_pct", 0.5}}), "neox");
  EXPECT_NE(weights("neox").find("embed_out.weight"), nullptr);
  make({{"model_type", "gpt2"}, {"vocab_size", 50}, {"n_embd", 64}, {"n_layer", 2}, {"n_head", 2}}, "gpt2");
  double squares = 0;
  const std::vector<float> narrow = values(weights("gpt2"), "transformer.h.0.attn.c_proj.weight");
  for (const float v : narrow) squares += double{v} * double{v};
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(narrow.size())), 0.02 / std::sqrt(4.0), 0.0006);
}

// ft init makes 4-bit weights without making the dense model; their bits equal the bits of the dense model
// after ft quantize.
TEST_F(Init, In4BitsItEqualsTheQuantizedDenseModel) {
  for (const bool nested : {false, true}) {
    const std::string end = nested ? "-nested" : "";
    const Json config = small({{"hidden_size", 64}, {"dtype", "bfloat16"}, {"tie_word_embeddings", nested}});
    make(config, "dense" + end);
    testing::internal::CaptureStderr();
    quantize({.model = folder / ("dense" + end), .output = folder / ("want" + end), .double_quant = nested});
    init({.config = folder.write("config.json", json_text(config)),
          .output = folder / ("got" + end),
          .load_in_4bit = true,
          .double_quant = nested});
    EXPECT_NE(testing::internal::GetCapturedStderr().find("bfloat16 and nf4"), std::string::npos);
    for (const char* file : {"/model.safetensors", "/config.json"})
      EXPECT_TRUE(slurp(folder / ("got" + end + file)) == slurp(folder / ("want" + end + file))) << file;
  }
  const std::string gpt2 =
      folder.write("config.json", json_text(Json{{"model_type", "gpt2"}, {"n_layer", 1}}));
  EXPECT_EQ(error_of([&] { init({.config = gpt2, .output = folder / "new", .load_in_4bit = true}); }),
            "2 gpt2: ft writes no 4-bit files of weights that are stored inputs first; leave out "
            "--load-in-4bit");
  const std::string mixture =
      folder.write("config.json", json_text(small({{"model_type", "gemma4_text"},
                                                   {"num_key_value_heads", 1},
                                                   {"vocab_size_per_layer_input", small()["vocab_size"]},
                                                   {"enable_moe_block", true},
                                                   {"num_experts", 3},
                                                   {"top_k_experts", 2},
                                                   {"moe_intermediate_size", 5}})));
  EXPECT_EQ(
      error_of([&] { init({.config = mixture, .output = folder / "new", .load_in_4bit = true}); }),
      "2 gemma4_text: its files have the experts of a layer in one tensor, which ft does not write in 4 "
      "bits; leave out --load-in-4bit");
}

TEST_F(Init, TheConfigurationMayBeAFolder) {
  folder.write("made/config.json", json_text(small()));
  testing::internal::CaptureStderr();
  EXPECT_EQ(init({.config = folder / "made", .output = folder / "out/"}), Exit::done);
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::filesystem::exists(folder / "out/model.safetensors"));
  EXPECT_EQ(folder.entries(), 2u);
  std::filesystem::create_directory(folder / "empty");
  const std::string text = error_of([&] { init({.config = folder / "empty", .output = folder / "new"}); });
  EXPECT_EQ(text, "3 " + (folder / "empty/config.json") + ": cannot be read: No such file or directory");
}

TEST_F(Init, NamesWrongSizes) {
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    const std::string wanted = str(key, "; it must be an integer from 1 to ");
    EXPECT_TRUE(refused({{key, nullptr}}).starts_with("3 config.json: has no " + wanted))
        << refused({{key, nullptr}});
    for (const Json& wrong :
         {Json(0), Json(-1), Json(std::int64_t{1} << 40), Json(1e30), Json(1.5), Json("8"), Json::array()}) {
      const std::string text = refused({{key, wrong}});
      EXPECT_TRUE(text.starts_with(str("3 config.json: ", key, " must be an integer from 1 to "))) << text;
      EXPECT_TRUE(text.ends_with(", is " + json_excerpt(wrong))) << text;
    }
  }
  EXPECT_EQ(refused({{"num_attention_heads", 3}}),
            "3 config.json: num_attention_heads must be a divisor of hidden_size (8), is 3");
  EXPECT_EQ(refused({{"initializer_range", 1e30}}),
            "3 config.json: initializer_range must be a number from 0 to 1000, is 1e+30");
}

TEST_F(Init, KindsAreNamed) {
  EXPECT_EQ(
      refused({{"model_type", "falcon"}}),
      "3 config.json: falcon models are not supported; supported are llama, mistral, qwen2, qwen3, gemma2, "
      "gemma3_text, gemma4_text, gemma4, phi3, granite, olmo2, smollm3, opt, gpt2, gpt_neox, mixtral, "
      "qwen2_moe, qwen3_moe, "
      "olmoe, qwen3_next, qwen3_5_text, qwen3_5, qwen3_5_moe_text, qwen3_5_moe, "
      "deepseek_v2, deepseek_v3, glm4_moe_lite, glm4_moe, gpt_oss, t5, mt5 (model_type)");
  EXPECT_EQ(refused({{"model_type", nullptr}}), "3 config.json: has no model_type; it must be a string");
  const std::string types = " must be one of float32, bfloat16, float16 (--dtype sets another), is ";
  EXPECT_EQ(refused({{"dtype", "float64"}}), "3 config.json: dtype" + types + "\"float64\"");
  EXPECT_EQ(refused({{"torch_dtype", "int8"}}), "3 config.json: torch_dtype" + types + "\"int8\"");
  EXPECT_EQ(refused({{"dtype", 16}}), "3 config.json: dtype must be a string, is 16");
  EXPECT_EQ(refusal(json_text(small()), "out", "int8"),
            "2 --dtype: \"int8\" is not one of float32, bfloat16, float16");
  EXPECT_TRUE(refusal("{").starts_with("3 config.json:1: not JSON: ")) << refusal("{");
  EXPECT_EQ(refusal("[]"), "3 config.json: must be a JSON object, is []");
}

// Each size is within its limit, but no disk has room for the weights.
TEST_F(Init, MoreThanTheDiskHasIsRefusedBeforeAnythingIsMade) {
  const std::int64_t most = std::int64_t{1} << 24;
  const Json huge = {{"vocab_size", most},          {"hidden_size", most}, {"intermediate_size", most},
                     {"num_attention_heads", most}, {"head_dim", 4096},    {"num_hidden_layers", 4096}};
  const std::string text = refusal(json_text(small(huge)), "new/out");
  EXPECT_TRUE(text.starts_with("6 new/out: the weights take 9,000,000 TB and there are ")) << text;
}

TEST_F(Init, NothingIsReplaced) {
  const std::string config = json_text(small());
  folder.write("full/mine", "text");
  folder.write("file", "text");
  std::filesystem::create_directory(folder / "empty");
  std::filesystem::create_symlink("nowhere", folder / "link");
  for (const std::string name : {"full", "full/", "file", "empty", "link"})
    EXPECT_EQ(refusal(config, name), "2 " + name + " already exists; give a new folder");
  EXPECT_EQ(slurp(folder / "full/mine"), "text");
  EXPECT_EQ(refusal(config, "file/out"), "6 file: cannot be written: Not a directory");
  const std::string file = folder / "config.json";
  EXPECT_EQ(error_of([&] { init({.config = file, .output = ""}); }),
            "2 --output: is empty; give a new folder");
  const std::string unwritable = error_of([&] { init({.config = file, .output = "/proc/out"}); });
  EXPECT_TRUE(unwritable.starts_with("6 /proc/out: ")) << unwritable;
}

// The model configurations that the repository's scripts use.
TEST_F(Init, TheExamplesAreModels) {
  for (const char* name :
       {"configs/demo/model.json", "configs/demo/base/config.json", "bench/gsm8k/model.json"}) {
    const std::string file = source_path(name);
    EXPECT_EQ(make_model(file, DType::f32).info.architecture, "LlamaForCausalLM") << name;
  }
}

}  // namespace
}  // namespace ft
