// ft inspect: its description of files and folders, as a table and as JSON.
#include "app/models/inspect.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/files/checkpoint_folder.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::TempFolder;

class InspectTest : public ::testing::Test {
 protected:
  static std::vector<TensorSpec> layers() {
    std::vector<TensorSpec> specs = {{"model.embed_tokens.weight", DType::bf16, {6, 4}}};
    for (int i = 0; i < 3; ++i)
      specs.push_back({str("model.layers.", i, ".mlp.up_proj.weight"), DType::bf16, {5, 4}});
    return specs;
  }
  TensorProvider provider() {
    return [this](const TensorSpec& t) -> Tensor {
      return {reinterpret_cast<std::byte*>(values_.data()), DType::f32, t.shape};
    };
  }
  static std::string text(const std::string& path) {
    std::ostringstream out;
    write_inspection(path, false, out);
    return out.str();
  }
  static Json json(const std::string& path) {
    std::ostringstream out;
    write_inspection(path, true, out);
    return parse_json(out.str(), {"stdout"});
  }

  TempFolder folder;
  std::vector<float> values_ = std::vector<float>(64, 0.5f);
};

TEST_F(InspectTest, AFile) {
  const std::string path = folder / "a.safetensors";
  write_safetensors(path, layers(), provider());
  EXPECT_EQ(text(path), path +
                            "  safetensors, 84 parameters, BF16, 4 tensors, 168 B\n"
                            "  format: pt\n"
                            "      48 B      BF16 [6, 4]  model.embed_tokens.weight\n"
                            "     120 B  3 x BF16 [5, 4]  model.layers.*.mlp.up_proj.weight\n");
  const Json j = json(path);
  EXPECT_EQ(j["kind"], "safetensors");
  EXPECT_EQ(j["parameters"], 84);
  EXPECT_EQ(j["tensors"].size(), 4u);
  EXPECT_EQ(j["tensors"][1].dump(),
            R"({"name":"model.layers.0.mlp.up_proj.weight","dtype":"BF16","shape":[5,4],"bytes":40})");
  EXPECT_EQ(j["metadata"].dump(), R"({"format":"pt"})");
}

TEST_F(InspectTest, AModel) {
  write_shards(folder.path(), "model", layers(), provider(), 100);
  folder.write("config.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})");
  EXPECT_EQ(text(folder.path()).substr(folder.path().size(), 74),
            "  LlamaForCausalLM, 84 parameters, BF16, 4 tensors, 168 B in 2 files\n  for");
  const Json j = json(folder.path());
  EXPECT_EQ(j["kind"], "model");
  EXPECT_EQ(j["model_type"], "llama");
  EXPECT_EQ(j["tensors"][0]["file"], "model-00001-of-00002.safetensors");
}

TEST_F(InspectTest, Columns) {
  const std::string file = source_path("tests/golden/parquet/many-brotli.parquet");
  EXPECT_EQ(text(file), file +
                            "  Parquet, 48 rows in 3 row groups, 6.23 kB\n"
                            "  prompt: string\n"
                            "  word: string\n"
                            "  ids: list<int64>\n"
                            "  n: int32\n"
                            "  x: float64\n"
                            "  ok: bool\n");
  const Json j = json(source_path("tests/golden/parquet/saved/data-00000-of-00002.arrow"));
  EXPECT_EQ(j["kind"], "arrow");
  EXPECT_EQ(j["rows"], 3);
  EXPECT_EQ(j["batches"], 1);
  EXPECT_EQ(j["columns"].dump(), R"([{"name":"prompt","type":"string"},{"name":"word","type":"string"}])");
}

// Folders in FP8 that ft cannot train from are listed, without a description of their scales.
TEST_F(InspectTest, WeightsInFp8OfOtherForms) {
  const std::vector<std::uint8_t> codes(64, 0x38);
  const auto listed = [&](const Shape& shape, const std::vector<TensorSpec>& scales) {
    std::vector<TensorSpec> specs = {{"w.weight", DType::u8, shape, true}};
    specs.insert(specs.end(), scales.begin(), scales.end());
    write_safetensors(folder / "model.safetensors", specs, [&](const TensorSpec& t) -> Tensor {
      const void* data = t.dtype == DType::u8 ? static_cast<const void*>(codes.data()) : values_.data();
      return {static_cast<std::byte*>(const_cast<void*>(data)), t.dtype, t.shape};
    });
    return json(folder.path());
  };
  const TensorSpec one{"w.weight_scale", DType::f32, {1}}, three{"w.weight_scale", DType::f32, {3}};
  EXPECT_EQ(listed({4, 8}, {one})["quantization"], (Json{{"quant_type", "fp8"}, {"scales", "tensor"}}));
  for (const Json& j : {listed({4, 8}, {}), listed({2, 4, 8}, {}), listed({4, 8}, {three})}) {
    EXPECT_FALSE(j.contains("quantization")) << j.dump();
    const auto weight = std::ranges::find(j["tensors"], "w.weight", [](const Json& t) { return t["name"]; });
    ASSERT_NE(weight, j["tensors"].end());
    EXPECT_EQ((*weight)["dtype"], "F8_E4M3");
  }
  EXPECT_EQ(listed({2, 4, 8}, {})["parameters"], 64);
}

TEST_F(InspectTest, RowsAndSettings) {
  const std::string rows =
      folder.write("a.jsonl", "{\"q\": \"x\", \"n\": 1}\n{\"q\": \"y\", \"n\": null, \"m\": []}\n");
  EXPECT_EQ(text(rows), rows + "  2 rows, " + std::to_string(std::filesystem::file_size(rows)) +
                            " B\n  q: text\n  n: null, number\n  m: list\n"
                            "ft data show --config run.json shows how rows become tokens\n");
  EXPECT_EQ(json(rows)["kind"], "rows");
  EXPECT_EQ(json(folder.write("b.CSV", "a,b\r1,2\r"))["columns"][1]["name"], "b");
  EXPECT_EQ(json(folder.write("c.json", "[{}, {}]"))["rows"], 2);
  const std::string run =
      folder.write("run.json", "{\n \"model\": {\"model_name_or_path\": \"m\"},\n \"data\": {}\n}\n");
  EXPECT_EQ(json(run)["kind"], "run settings");
  EXPECT_NE(text(run).find("  model: {\"model_name_or_path\":\"m\"}\n"), std::string::npos) << text(run);
  EXPECT_NE(text(run).find("ft validate --config "), std::string::npos);
  const std::string tokenizer = folder.write("tokenizer.json",
                                             R"({"added_tokens": [{"id": 2}],
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}})");
  EXPECT_EQ(text(tokenizer), tokenizer + "  tokenizer, BPE, 2 tokens, 1 merge, 1 added\n");
  EXPECT_EQ(json(folder.write("config.json", "{\"model_type\": \"llama\"}"))["kind"], "model settings");
  EXPECT_EQ(json(folder.write("other.json", "{\"x\": 1}"))["kind"], "json");
  const std::string broken = folder.write("broken.json", "{\n \"model\": {,\n}\n");
  EXPECT_NE(error_of([&] { text(broken); }).find("broken.json:2: not JSON"), std::string::npos);
  EXPECT_NE(
      error_of([&] { text(folder.write("a.bin", "0123456789")); }).find("not a file that ft inspect knows"),
      std::string::npos);
}

TEST_F(InspectTest, AnAdapter) {
  folder.write("adapter_config.json",
               R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]})");
  write_safetensors(folder / "adapter_model.safetensors",
                    {{"base_model.model.q_proj.lora_A.weight", DType::f32, {2, 4}}}, provider());
  EXPECT_EQ(text(folder.path()).substr(folder.path().size(), 78),
            "  LoRA adapter, r 2, alpha 4, on [\"q_proj\"], 8 parameters, F32, 1 tensor, 32 B");
  EXPECT_EQ(json(folder.path())["r"], 2);
}

// Its places are tensors of the file, but not parameters.
TEST_F(InspectTest, AShiraAdapter) {
  folder.write("adapter_config.json", R"({"peft_type": "SHIRA", "r": 1, "target_modules": ["q_proj"]})");
  const std::string module = "base_model.model.q_proj.";
  write_safetensors(
      folder / "adapter_model.safetensors",
      {{module + "shira_weight", DType::f32, {6}}, {module + "shira_indices", DType::i32, {2, 6}}},
      [this](const TensorSpec& t) -> Tensor {
        return {reinterpret_cast<std::byte*>(values_.data()), t.dtype, t.shape};
      });
  EXPECT_EQ(text(folder.path()).substr(folder.path().size(), 75),
            "  SHiRA adapter, r 1, on [\"q_proj\"], 6 parameters, F32 I32, 2 tensors, 72 B");
  EXPECT_EQ(json(folder.path())["parameters"], 6);
}

TEST_F(InspectTest, ACheckpointAndARun) {
  for (const int step : {5, 10}) {
    CheckpointWriter writer(folder.path(), step);
    write_safetensors(writer.path() + "/optimizer.safetensors", layers(), provider());
    writer.commit({{"loss", 0.5}});
  }
  const Json c = json(folder / "checkpoint-5");
  EXPECT_EQ(c["kind"], "checkpoint");
  EXPECT_EQ(c["step"], 5);
  EXPECT_EQ(c["verified"].dump(), R"(["optimizer.safetensors"])");
  folder.write("checkpoint-10/optimizer.safetensors", "x");
  const std::string damage =
      folder / "checkpoint-10/optimizer.safetensors: is damaged: 1 bytes, the manifest states ";
  EXPECT_EQ(error_of([&] { text(folder / "checkpoint-10"); }).substr(0, damage.size() + 2), "4 " + damage);
  const std::string run =
      folder.path() + "  run, 2 checkpoints\n  checkpoint-5  intact\n  checkpoint-10  " + damage;
  EXPECT_EQ(text(folder.path()).substr(0, run.size()), run);
  EXPECT_EQ(json(folder.path())["checkpoints"][1]["whole"], false);
}

TEST_F(InspectTest, PathsWithoutAModelAreRefused) {
  EXPECT_EQ(error_of([&] { text(folder / "none"); }),
            "3 " + folder / "none: cannot be read: No such file or directory");
  EXPECT_EQ(error_of([&] { text(folder.path()); }), "3 " + folder.path() + ": has no model.safetensors");
}

}  // namespace
}  // namespace ft
