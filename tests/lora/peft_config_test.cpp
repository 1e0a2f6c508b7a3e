// adapter_config.json: PEFT's files are read and written back the same; kinds of LoRA that ft cannot compute
// are refused by name.
#include "lora/peft_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "lora/peft.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft::lora {
namespace {

using test::error_of;
using test::TempFolder;

TEST(PeftConfig, PeftsFilesAreWrittenBackTheSame) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/golden/models"))) {
    const std::string path = (entry.path() / "adapter/adapter_config.json").string();
    if (!std::filesystem::exists(path)) continue;
    const auto [config, base, warnings] = read_adapter_config(path, Exit::input);
    EXPECT_TRUE(warnings.empty()) << path;
    nlohmann::json theirs = read_json(path);
    if (theirs.value("target_parameters", nlohmann::json()) == nlohmann::json::array())
      theirs["target_parameters"] = nullptr;  // PEFT writes both
    Attached attached;
    attached.inputs_first = theirs.value("fan_in_fan_out", false);
    const nlohmann::json ours = parse_json(adapter_config_text(config, attached, base), {"ours"});
    EXPECT_EQ(ours, theirs) << path;
    ++found;
  }
  EXPECT_GE(found, 15);
}

class PeftConfigTest : public ::testing::Test {
 protected:
  LoraConfig read(const std::string& rest) {
    AdapterConfig read = read_adapter_config(
        folder.write("a.json", R"({"peft_type": "LORA", "target_modules": ["q_proj"])" + rest + "}"),
        Exit::input);
    base = read.base_model;
    warnings = read.warnings;
    return read.lora;
  }
  std::string says(const std::string& rest) {
    const std::string error = error_of([&] { read(rest); }), prefix = "3 " + folder / "a.json: ";
    return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
  }
  TempFolder folder;
  std::string base;
  std::vector<std::string> warnings;
};

TEST_F(PeftConfigTest, DefaultsArePefts) {
  const LoraConfig c = read("");
  EXPECT_EQ(c.r, 8);
  EXPECT_EQ(c.lora_alpha, 8);
  EXPECT_EQ(c.lora_dropout, 0);
  EXPECT_EQ(c.bias, LoraBias::none);
  EXPECT_EQ(c.init_lora_weights, LoraInitWord(LoraInit::kaiming));
  EXPECT_FALSE(c.exclude_modules || c.modules_to_save || c.layers_to_transform);
}

TEST_F(PeftConfigTest, EveryForm) {
  const LoraConfig c = read(R"(, "r": 4, "lora_alpha": 2.5, "rank_pattern": {"b": 2, "a": 3}, "bias": "all",
      "layers_to_transform": 3, "exclude_modules": "x.*", "init_lora_weights": "gaussian", "something_new": 1,
      "base_model_name_or_path": "models/x", "layer_replication": [], "layers_pattern": ["layers"],
      "alpha_pattern": {"^c$": 1}, "lora_bias": false, "fan_in_fan_out": true, "use_rslora": true)");
  EXPECT_EQ(c.r, 4);
  EXPECT_EQ(c.lora_alpha, 2.5);
  EXPECT_EQ(c.exclude_modules, Modules("x.*"));
  EXPECT_EQ(c.layers_to_transform, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(c.rank_pattern, (Pattern<std::int64_t>{{"b", 2}, {"a", 3}}));
  EXPECT_EQ(c.alpha_pattern, (Pattern<double>{{"^c$", 1.0}}));
  EXPECT_EQ(c.init_lora_weights, LoraInitWord(LoraInit::gaussian));
  EXPECT_TRUE(c.use_rslora);
  EXPECT_EQ(base, "models/x");
}

TEST_F(PeftConfigTest, KindsOfLora) {
  const LoraConfig c = read(R"(, "use_dora": true, "init_lora_weights": "pissa_niter_16",
      "trainable_token_indices": {"embed_tokens": [7, 3]},
      "layers_to_transform": [1], "layers_pattern": "h")");
  EXPECT_TRUE(c.use_dora);
  EXPECT_EQ(start_of(c.init_lora_weights)->init, LoraInit::pissa);
  EXPECT_EQ(start_of(c.init_lora_weights)->iterations, 16);
  EXPECT_TRUE(start_of(c.init_lora_weights)->changes_base());
  const auto tokens = trained_tokens(c.trainable_token_indices, "", Exit::input);
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].module, "embed_tokens");
  EXPECT_EQ(tokens[0].ids, (std::vector<std::int64_t>{7, 3}));
  EXPECT_EQ(c.layers_pattern, Modules("h"));
  const Json written = Json::parse(adapter_config_text(c, {}, ""));
  for (const auto& [key, value] : {std::pair<const char*, Json>{"use_dora", true},
                                   {"init_lora_weights", "pissa_niter_16"},
                                   {"layers_pattern", "h"},
                                   {"trainable_token_indices", {{"embed_tokens", {7, 3}}}}})
    EXPECT_EQ(written[key], value) << key;
  // PEFT's notes on initialization by eva do not change the adapter, so they are accepted.
  EXPECT_EQ(read(R"(, "init_lora_weights": "eva")").init_lora_weights, LoraInitWord(LoraInit::kaiming));
  EXPECT_FALSE(read(R"(, "trainable_token_indices": null)").use_dora);
}

TEST_F(PeftConfigTest, ABiasOfBIsASetting) {
  const LoraConfig c = read(R"(, "lora_bias": true)");
  EXPECT_TRUE(c.lora_bias);
  EXPECT_EQ(Json::parse(adapter_config_text(c, {}, ""))["lora_bias"], true);
}

TEST_F(PeftConfigTest, TokensThatInvokeAnAdapterAreASetting) {
  const LoraConfig c = read(R"(, "alora_invocation_tokens": [7, 3])");
  EXPECT_EQ(c.alora_invocation_tokens, (std::vector<std::int64_t>{7, 3}));
  EXPECT_EQ(Json::parse(adapter_config_text(c, {}, ""))["alora_invocation_tokens"], (Json{7, 3}));
  EXPECT_FALSE(read(R"(, "alora_invocation_tokens": null)").alora_invocation_tokens);
}

TEST_F(PeftConfigTest, LoraGaIsWrittenWithPeftsSettings) {
  LoraConfig c = read(R"(, "init_lora_weights": "lora_ga", "lora_ga_config": {"scale": "unit"})");
  EXPECT_EQ(c.init_lora_weights, LoraInitWord(LoraInit::lora_ga));
  EXPECT_TRUE(start_of(c.init_lora_weights)->changes_base());
  EXPECT_TRUE(warnings.empty());
  c.lora_ga_config.batches = 3;  // of the run alone
  const Json written = Json::parse(adapter_config_text(c, {}, ""));
  EXPECT_EQ(written["init_lora_weights"], "lora_ga");
  EXPECT_EQ(written["lora_ga_config"],
            Json::parse(R"({"direction": "ArB2r", "scale": "stable", "stable_gamma": 16})"));
}

TEST_F(PeftConfigTest, RefusesByName) {
  const std::string kind = " must be false or null: ft does not compute this kind of LoRA, is ";
  EXPECT_EQ(says(R"(, "use_qalora": true)"), "use_qalora" + kind + "true");
  EXPECT_EQ(says(R"(, "monteclora_config": {"a": 1})"), "monteclora_config" + kind + "an object of 1 key");
  for (const std::string word : {"corda", "loftq", "pissa_niter_", "pissa_niter_0", "pissa_niter_4x"})
    EXPECT_EQ(
        says(", \"init_lora_weights\": \"" + word + "\""),
        "init_lora_weights must be true, false, gaussian, eva, orthogonal, olora, pissa, pissa_niter_N or "
        "lora_ga: with others PEFT changes the base's weights in ways that ft does not know, is \"" +
            word + "\"");
  const std::string tokens = "trainable_token_indices: ";
  EXPECT_EQ(says(R"(, "trainable_token_indices": [1, "a"])"), tokens + "\"a\" is not a token's id");
  EXPECT_EQ(says(R"(, "trainable_token_indices": {"a": [1], "b": 2})"),
            tokens + "is not a list of token ids, or an object with such lists");
  EXPECT_EQ(says(R"(, "r": 0)").substr(0, 20), "r must be an integer");
  EXPECT_EQ(says(R"(, "exclude_modules": 5)"),
            "exclude_modules must be a string or an array of strings, is 5");
  folder.write("b.json", R"({"peft_type": "VBLORA"})");
  EXPECT_EQ(error_of([&] { read_adapter_config(folder / "b.json", Exit::input); }),
            "3 " + folder / "b.json: peft_type must be LORA, MISS, HIRA, SHIRA or OFT, is \"VBLORA\"");
}

// Kinds that are folded into weights are read only where they can be.
TEST_F(PeftConfigTest, KindsThatAreNotTrainedAreReadWhereTheyAreFolded) {
  EXPECT_FALSE(is_folded(folder / "nothing"));
  folder.write("adapter_config.json", R"({"peft_type": "LORA", "target_modules": ["q_proj"]})");
  EXPECT_FALSE(is_folded(folder.path()));
  const std::string file = folder.write(
      "adapter_config.json",
      R"({"peft_type": "LOHA", "target_modules": ["q_proj"], "r": 3, "alpha": 5, "use_effective_conv2d": true,
          "rank_pattern": {"q": 2}, "another": 1})");
  EXPECT_TRUE(is_folded(folder.path()));
  EXPECT_EQ(
      error_of([&] { read_adapter_config(file, Exit::config); }),
      "2 " + file +
          ": peft_type: ft reads adapters of LoHa to generate, evaluate and merge, and for nothing else; "
          "make a model of it with ft merge, and use that");
  const AdapterConfig read = read_adapter_config(file, Exit::input, KindsRead::all);
  EXPECT_EQ(read.lora.r, 3);
  EXPECT_EQ(read.lora.lora_alpha, 5);
  EXPECT_EQ(read.lora.rank_pattern, (Pattern<std::int64_t>{{"q", 2}}));
  ASSERT_EQ(read.warnings.size(), 1u);
  EXPECT_TRUE(read.warnings[0].starts_with(file + ": another is not a setting of LoHa")) << read.warnings[0];
}

TEST_F(PeftConfigTest, WarnsAboutUnknownKeysThatAreSet) {
  read(R"(, "a_flag": true, "a_number": 0.5, "an_object": {"b": 1}, "a_text": "c")");
  ASSERT_EQ(warnings.size(), 4u);
  EXPECT_TRUE(warnings[0].starts_with(folder / "a.json: a_flag is not a setting")) << warnings[0];
  read(
      R"(, "a_flag": false, "nothing": null, "empty": {}, "peft_version": "9", "megatron_config": {"a": 1})");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(PeftConfigTest, EveryTableHasItsTokens) {
  const LoraConfig c = read(R"(, "trainable_token_indices": {"embed_tokens": [4], "lm_head": [5, 6]})");
  const auto tokens = trained_tokens(c.trainable_token_indices, "", Exit::input);
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[1].module, "lm_head");
  EXPECT_EQ(tokens[1].ids, (std::vector<std::int64_t>{5, 6}));
  EXPECT_TRUE(read(R"(, "ensure_weight_tying": true)").ensure_weight_tying);
}

TEST_F(PeftConfigTest, PicklesAreNotRead) {
  folder.write("adapter_config.json", R"({"peft_type": "LORA", "target_modules": ["q_proj"]})");
  folder.write("adapter_model.bin", "PK");
  EXPECT_EQ(
      error_of([&] { AdapterFolder adapter(folder.path(), Exit::input); }),
      "3 " + folder.path() +
          ": has no adapter_model.safetensors, only adapter_model.bin; a pickle can run code and is not "
          "read. Convert it once, where PEFT is installed:\n"
          "  PeftModel.from_pretrained(base, folder).save_pretrained(new_folder)");
}

TEST(PeftConfig, AllLinearIsWrittenAsNames) {
  const Json j = parse_json(
      adapter_config_text({}, {.linears = {"l.0.q_proj", "l.0.up_proj", "l.1.q_proj"}}, ""), {"a"});
  EXPECT_EQ(j["target_modules"].dump(), R"(["q_proj","up_proj"])");
  EXPECT_EQ(j["lora_alpha"].dump(), "16");
  EXPECT_TRUE(j["base_model_name_or_path"].is_null());
}

// PEFT allows no expression beside layers_to_transform, and an expression for the text model misses the head.
TEST(PeftConfig, TargetsInsideALargerModelAreAnExpressionOrCompleteNames) {
  const auto targets = [](std::vector<std::string> linears, const LoraConfig& c) {
    const Attached attached{.linears = std::move(linears), .nested = "language_model."};
    return parse_json(adapter_config_text(c, attached, ""), {"a"})["target_modules"].dump();
  };
  const std::string q = "model.layers.1.self_attn.q_proj";
  LoraConfig c;
  c.target_modules = std::vector<std::string>{"q_proj"};
  EXPECT_EQ(targets({q}, c), R"x("(.*\\.)?language_model\\.(.*\\.)?(q_proj)")x");
  c.layers_to_transform = {1};
  EXPECT_EQ(targets({q}, c), R"(["model.language_model.layers.1.self_attn.q_proj"])");
  c.layers_to_transform.reset();
  c.target_modules = std::vector<std::string>{"q_proj", "lm_head"};
  EXPECT_EQ(targets({q, "lm_head"}, c), R"(["model.language_model.layers.1.self_attn.q_proj","lm_head"])");
}

}  // namespace
}  // namespace ft::lora
