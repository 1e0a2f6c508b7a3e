// ft inspect: what it says of files and folders, as a table and as JSON.
#include "app/models/inspect.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/checkpoint_folder.h"
#include "engine/io/json.h"
#include "engine/io/safetensors_write.h"
#include "tests/engine/io/temp_folder.h"
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

TEST_F(InspectTest, AnAdapter) {
  folder.write("adapter_config.json",
               R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]})");
  write_safetensors(folder / "adapter_model.safetensors",
                    {{"base_model.model.q_proj.lora_A.weight", DType::f32, {2, 4}}}, provider());
  EXPECT_EQ(text(folder.path()).substr(folder.path().size(), 78),
            "  LoRA adapter, r 2, alpha 4, on [\"q_proj\"], 8 parameters, F32, 1 tensor, 32 B");
  EXPECT_EQ(json(folder.path())["r"], 2);
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

TEST_F(InspectTest, WhatIsNothing) {
  EXPECT_EQ(error_of([&] { text(folder / "none"); }),
            "3 " + folder / "none: cannot be read: No such file or directory");
  EXPECT_EQ(error_of([&] { text(folder.path()); }), "3 " + folder.path() + ": has no model.safetensors");
}

}  // namespace
}  // namespace ft
