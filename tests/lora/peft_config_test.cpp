// adapter_config.json: what PEFT wrote is read and written back the same; what ft cannot compute is refused
// by name.
#include "lora/peft_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/io/json.h"
#include "lora/peft.h"
#include "tests/engine/io/temp_folder.h"
#include "tests/support/source.h"

namespace ft::lora {
namespace {

using test::error_of;
using test::TempFolder;

TEST(PeftConfig, WhatPeftWroteIsWrittenBackTheSame) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/golden/models"))) {
    const std::string path = (entry.path() / "adapter/adapter_config.json").string();
    if (!std::filesystem::exists(path)) continue;
    std::string base;
    const LoraConfig config = read_adapter_config(path, Exit::input, base);
    const nlohmann::json theirs = read_json(path);
    Attached attached;
    attached.inputs_first = theirs["fan_in_fan_out"];
    const nlohmann::json ours = parse_json(adapter_config_text(config, attached, base), {"ours"});
    EXPECT_EQ(ours, theirs) << path;
    ++found;
  }
  EXPECT_GE(found, 15);
}

class PeftConfigTest : public ::testing::Test {
 protected:
  LoraConfig read(const std::string& rest) {
    return read_adapter_config(
        folder.write("a.json", R"({"peft_type": "LORA", "target_modules": ["q_proj"])" + rest + "}"),
        Exit::input, base);
  }
  std::string says(const std::string& rest) {
    const std::string error = error_of([&] { read(rest); }), prefix = "3 " + folder / "a.json: ";
    return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
  }
  TempFolder folder;
  std::string base;
};

TEST_F(PeftConfigTest, DefaultsArePefts) {
  const LoraConfig c = read("");
  EXPECT_EQ(c.r, 8);
  EXPECT_EQ(c.lora_alpha, 8);
  EXPECT_EQ(c.lora_dropout, 0);
  EXPECT_EQ(c.bias, LoraBias::none);
  EXPECT_EQ(c.init_lora_weights, LoraInit::kaiming);
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
  EXPECT_EQ(c.init_lora_weights, LoraInit::gaussian);
  EXPECT_TRUE(c.use_rslora);
  EXPECT_EQ(base, "models/x");
}

TEST_F(PeftConfigTest, RefusesByName) {
  const std::string kind = " must be false or null: ft does not compute this kind of LoRA, is ";
  EXPECT_EQ(says(R"(, "use_dora": true)"), "use_dora" + kind + "true");
  EXPECT_EQ(says(R"(, "lora_bias": true)"), "lora_bias" + kind + "true");
  EXPECT_EQ(says(R"(, "target_parameters": ["a"])"), "target_parameters" + kind + "[\"a\"]");
  EXPECT_EQ(says(R"(, "monteclora_config": {"a": 1})"), "monteclora_config" + kind + "an object of 1 key");
  EXPECT_EQ(says(R"(, "layers_pattern": "stages")"),
            "layers_pattern must be \"layers\", T5's \"block\" or GPT-2's \"h\", the lists of layers in the "
            "models that ft knows, is \"stages\"");
  EXPECT_EQ(
      says(R"(, "init_lora_weights": "pissa")"),
      "init_lora_weights must be true, false, gaussian, eva or orthogonal: others change the base's weights; "
      "PEFT's save_pretrained converts pissa and olora (path_initial_model_for_weight_conversion), is "
      "\"pissa\"");
  EXPECT_EQ(says(R"(, "r": 0)").substr(0, 20), "r must be an integer");
  EXPECT_EQ(says(R"(, "exclude_modules": 5)"),
            "exclude_modules must be a string or an array of strings, is 5");
  folder.write("b.json", R"({"peft_type": "IA3"})");
  EXPECT_EQ(error_of([&] { read_adapter_config(folder / "b.json", Exit::input, base); }),
            "3 " + folder / "b.json: peft_type must be LORA, is \"IA3\"");
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

}  // namespace
}  // namespace ft::lora
