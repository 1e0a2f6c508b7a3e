// Writing safetensors: the reference implementation's bytes, round trips, shards, and no partial files.
#include "engine/files/safetensors/safetensors_write.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/files/safetensors/weights.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::error_of;
using test::slurp;
using test::TempFolder;

Tensor view(std::vector<float>& v, Shape shape, std::int64_t stride = 0) {
  return {reinterpret_cast<std::byte*>(v.data()), DType::f32, shape, stride};
}

TEST(SafetensorsWrite, TheBytesAreTheReferenceImplementations) {
  const TempFolder folder;
  std::vector<float> ones(6, 1.0f);
  const auto one = [&](const TensorSpec& t) { return view(ones, {t.shape.numel()}); };
  write_safetensors(folder / "a",
                    {{"b", DType::f32, {2}}, {"z", DType::bf16, {1}}, {"a", DType::bf16, {1, 2}}}, one);
  // The bytes that safetensors.torch.save_file writes for these tensors.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]},)"
      R"("z":{"dtype":"BF16","shape":[1],"data_offsets":[12,14]}}  )";
  ASSERT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(slurp(folder / "a"), std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                                     header +
                                     std::string("\0\0\x80\x3f\0\0\x80\x3f\x80\x3f\x80\x3f\x80\x3f", 14));
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(SafetensorsWrite, ReadsBackTheSame) {
  const TempFolder folder;
  std::vector<float> values(48);
  for (std::size_t i = 0; i < 48; ++i) values[i] = static_cast<float>(i) / 8;
  std::vector<std::uint8_t> bytes = {1, 2, 3};
  const std::vector<TensorSpec> specs = {{"scalar", DType::f32, {}},
                                         {"empty", DType::f32, {0, 4}},
                                         {"strided", DType::f16, {4, 9}},
                                         {"bytes", DType::u8, {3}},
                                         {"quote\"\\\n\xC3\xA4", DType::bf16, {2, 2, 2, 6}}};
  write_safetensors(folder / "a", specs, [&](const TensorSpec& t) -> Tensor {
    if (t.name == "bytes") return {reinterpret_cast<std::byte*>(bytes.data()), DType::u8, {3}};
    if (t.name == "strided") return view(values, {4, 9}, 12);
    return view(values, t.shape);
  });
  const SafetensorsFile file(folder / "a");
  ASSERT_EQ(file.tensors().size(), 5u);
  std::vector<float> back(48);
  file.read(*file.find("strided"), view(back, {36}));
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t c = 0; c < 9; ++c) EXPECT_EQ(back[r * 9 + c], values[r * 12 + c]);
  file.read(*file.find("quote\"\\\n\xC3\xA4"), view(back, {48}));
  EXPECT_EQ(back, values);
  EXPECT_TRUE(file.find("scalar")->shape.empty());
  EXPECT_EQ(file.find("empty")->numel, 0);
}

TEST(SafetensorsWrite, LeavesNothingWhenItFails) {
  const TempFolder folder;
  folder.write("a", "old");
  std::vector<float> values(2, 1.0f);
  const std::vector<TensorSpec> specs = {{"x", DType::f32, {2}}, {"y", DType::f32, {2}}};
  EXPECT_THROW(write_safetensors(folder / "a", specs,
                                 [&](const TensorSpec& t) {
                                   if (t.name == "y") throw std::bad_alloc();
                                   return view(values, {2});
                                 }),
               std::bad_alloc);
  values[1] = INFINITY;
  const auto provide = [&](const TensorSpec&) { return view(values, {2}); };
  EXPECT_EQ(error_of([&] { write_safetensors(folder / "a", specs, provide); }),
            "7 " + folder / "a: not written: x has a NaN or Inf as float32");
  values[1] = 70000.0f;
  EXPECT_EQ(error_of([&] {
              write_safetensors(folder / "a", {{"x", DType::f16, {2}}}, provide);
            }),
            "7 " + folder / "a: not written: x has a NaN or Inf as float16");
  EXPECT_THROW(write_safetensors(folder / "a", {{"x", DType::f32, {2}}, {"x", DType::f32, {2}}}, provide),
               InternalError);
  EXPECT_THROW(write_safetensors(folder / "a", {{"x", DType::f32, {3}}}, provide), InternalError);
  EXPECT_EQ(error_of([&] { write_shards(folder / "none", "model", specs, provide); }),
            "6 " + folder / "none/model.safetensors: cannot be written: No such file or directory");
  EXPECT_EQ(slurp(folder / "a"), "old");
  EXPECT_EQ(folder.entries(), 1u);
  write_safetensors(folder / "a", {{"x", DType::f32, {2}}}, provide, {}, Nonfinite::allow);
}

// Sizes in units of 40 bytes; huggingface_hub makes the same split and names.
TEST(WriteModel, SplitsAsHuggingFaceDoes) {
  const TempFolder folder;
  std::vector<float> values(100);
  for (std::size_t i = 0; i < 100; ++i) values[i] = static_cast<float>(i);
  const std::vector<TensorSpec> specs = {{"c", DType::f32, {10}},
                                         {"a", DType::f32, {10}},
                                         {"big", DType::f32, {50}},
                                         {"d", DType::f32, {10}},
                                         {"b", DType::f32, {10}}};
  const auto provide = [&](const TensorSpec& t) { return view(values, t.shape); };
  const WrittenFiles written = write_shards(folder.path(), "model", specs, provide, 120);
  EXPECT_EQ(written.names,
            (std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  EXPECT_EQ(written.bytes, 360);
  EXPECT_EQ(slurp(folder / "model.safetensors.index.json"),
            "{\n  \"metadata\": {\n    \"total_size\": 360\n  },\n  \"weight_map\": {\n"
            "    \"a\": \"model-00002-of-00003.safetensors\",\n"
            "    \"b\": \"model-00003-of-00003.safetensors\",\n"
            "    \"big\": \"model-00001-of-00003.safetensors\",\n"
            "    \"c\": \"model-00002-of-00003.safetensors\",\n"
            "    \"d\": \"model-00002-of-00003.safetensors\"\n  }\n}\n");
  const ModelFolder model(folder.path());
  std::vector<float> back(50);
  model.read("big", view(back, {50}));
  EXPECT_EQ(back[49], 49.0f);
  EXPECT_EQ(model.bytes(), 360);

  const TempFolder one;
  EXPECT_EQ(write_shards(one.path(), "model", specs, provide).names,
            (std::vector<std::string>{"model.safetensors"}));
  EXPECT_EQ(one.entries(), 1u);
}

TEST(WriteModel, LeavesNoShardWhenALaterOneFails) {
  const TempFolder folder;
  std::vector<float> values(10, 1.0f);
  EXPECT_THROW(write_shards(
                   folder.path(), "model", {{"a", DType::f32, {10}}, {"b", DType::f32, {10}}},
                   [&](const TensorSpec& t) {
                     if (t.name == "b") throw std::bad_alloc();
                     return view(values, {10});
                   },
                   40),
               std::bad_alloc);
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(WriteModel, ShardSizes) {
  EXPECT_EQ(parse_byte_size("5GB", "x"), 5'000'000'000);
  EXPECT_EQ(parse_byte_size("500 mb", "x"), 500'000'000);
  EXPECT_EQ(parse_byte_size("1.5GiB", "x"), 1610612736);
  EXPECT_EQ(parse_byte_size("123", "x"), 123);
  for (const char* bad : {"", "GB", "-1GB", "0", "5 XB", "1e30GB", "nan", "inf"})
    EXPECT_EQ(error_of([&] { parse_byte_size(bad, "max_shard_size"); }),
              str("2 max_shard_size must be a size such as \"5GB\", is \"", bad, "\""));
}

}  // namespace
}  // namespace ft
