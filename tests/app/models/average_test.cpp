// ft merge --average.
#include "app/models/average.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::TempFolder;

// Returns a folder with one weight "w" that has these values.
std::string folder(const TempFolder& temp, const std::string& name, std::vector<float> values, DType type,
                   bool adapter = false, int rank = 4, const std::string& more = "") {
  const std::string path = temp / name;
  std::filesystem::create_directory(path);
  const auto n = static_cast<std::int64_t>(values.size());
  write_shards(path, adapter ? "adapter_model" : "model", {{"w", type, {n}}}, [&](const TensorSpec&) {
    return Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {n});
  });
  write_file(join_path(path, adapter ? "adapter_config.json" : "config.json"),
             str("{\"r\": ", rank, ", \"lora_alpha\": 8, \"dtype\": \"float32\"", more, "}"));
  return path;
}

std::vector<float> weight(const std::string& file) {
  const SafetensorsFile from(file);
  const StoredTensor* t = from.find("w");
  std::vector<float> values(static_cast<std::size_t>(t->numel));
  from.read(*t, {reinterpret_cast<std::byte*>(values.data()), DType::f32, {t->numel}});
  return values;
}

TEST(Average, IsTheMeanRoundedOnce) {
  const TempFolder temp;
  const std::string a = folder(temp, "a", {1, 2, 3}, DType::f32),
                    b = folder(temp, "b", {2, 2, 0.5}, DType::bf16),
                    c = folder(temp, "c", {4, 2, 1}, DType::f32);
  MergeArgs args{.output = temp / "mean", .average = {a, b, c}};
  EXPECT_EQ(average(args), Exit::done);
  const std::vector<float> want{7.0f / 3, 2, 1.5};
  EXPECT_EQ(weight(temp / "mean/model.safetensors"), want);
  EXPECT_EQ(read_json(temp / "mean/config.json")["dtype"], "float32");
  args = {.output = temp / "narrow", .dtype = "bfloat16", .average = {a, c}};
  EXPECT_EQ(average(args), Exit::done);
  EXPECT_EQ(read_json(temp / "narrow/config.json")["dtype"], "bfloat16");
}

// The routers of DeepSeek are such tensors.
TEST(Average, KeepsTheFloat32TensorsOfAModelOf16Bits) {
  const TempFolder temp;
  const std::string a = folder(temp, "a", {1, 2, 3}, DType::f32),
                    b = folder(temp, "b", {2, 2, 0.5}, DType::f32);
  for (const bool narrow : {false, true}) {
    if (narrow) write_file(join_path(b, "config.json"), R"({"torch_dtype": "bfloat16"})");
    const std::string mean = temp / (narrow ? "kept" : "rounded");
    EXPECT_EQ(average({.output = mean, .dtype = "bfloat16", .average = {a, b}}), Exit::done);
    const SafetensorsFile written(join_path(mean, "model.safetensors"));
    EXPECT_EQ(written.find("w")->type, narrow ? StoredType::f32 : StoredType::bf16);
  }
}

TEST(Average, OfAdaptersIsAnAdapter) {
  const TempFolder temp;
  const std::string a = folder(temp, "a", {1, 3}, DType::f32, true),
                    b = folder(temp, "b", {2, 5}, DType::f32, true);
  EXPECT_EQ(average({.output = temp / "mean", .average = {a, b}}), Exit::done);
  EXPECT_EQ(weight(temp / "mean/adapter_model.safetensors"), (std::vector<float>{1.5, 4}));
  EXPECT_EQ(read_json(temp / "mean/adapter_config.json")["r"], 4);
}

TEST(Average, ModelsThatDifferInKindOrShapeAreRefused) {
  const TempFolder temp;
  const std::string a = folder(temp, "a", {1, 3}, DType::f32),
                    longer = folder(temp, "b", {1, 2, 3}, DType::f32),
                    adapter = folder(temp, "c", {1, 3}, DType::f32, true),
                    other = folder(temp, "d", {1, 3}, DType::f32, true, 8);
  for (const auto& folders : {std::vector{a, longer}, {a, adapter}, {adapter, other}, {a, temp / "none"}})
    EXPECT_THROW(average({.output = temp / "mean", .average = folders}), UserError);
  EXPECT_FALSE(path_exists(temp / "mean"));
}

TEST(Average, AdaptersWithDifferentScalesAreRefused) {
  const TempFolder temp;
  const auto adapter = [&](const std::string& name, const std::string& more) {
    return folder(temp, name, {1, 3}, DType::f32, true, 4, more);
  };
  const std::string plain = adapter("a", R"(, "use_rslora": false, "rank_pattern": {})");
  const std::vector<std::pair<std::string, std::string>> others = {{"use_rslora", "true"},
                                                                   {"alpha_pattern", R"({"q_proj": 3})"},
                                                                   {"rank_pattern", R"({"q_proj": 3})"},
                                                                   {"trainable_token_indices", "[1]"},
                                                                   {"use_dora", "true"},
                                                                   {"init_lora_weights", R"("pissa")"}};
  for (const auto& [key, value] : others) {
    const std::string other = adapter(key, str(", \"", key, "\": ", value));
    const std::string error = test::error_of([&] {
      average({.output = temp / "mean", .average = {plain, other}});
    });
    EXPECT_TRUE(error.starts_with("3 ") && error.find(key) != error.npos) << error;
  }
  const std::string same = adapter("same", R"(, "alpha_pattern": null, "init_lora_weights": "gaussian")");
  EXPECT_EQ(average({.output = temp / "mean", .average = {plain, same}}), Exit::done);
}

}  // namespace
}  // namespace ft
