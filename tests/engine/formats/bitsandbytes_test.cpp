// A folder that transformers and bitsandbytes wrote, read as 4-bit weights and as the dense weights that they
// stand for.
#include "engine/formats/bitsandbytes.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const std::filesystem::path kGolden = source_path("tests/golden/four_bit");

std::vector<float> read(const WeightSource& source, const std::string& name) {
  std::int64_t n = 1;
  for (const auto d : source.info(name).shape) n *= d;
  std::vector<float> values(static_cast<std::size_t>(n));
  source.read(name, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {n}));
  return values;
}

TEST(BitsAndBytes, AFolderIsTheDenseModelsWeights) {
  const ModelFolder plain((kGolden / "plain").string());
  const auto opened = open_model_folder((kGolden / "packed").string());
  const auto* packed = dynamic_cast<const BitsAndBytesFolder*>(opened.get());
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(packed->names(), plain.names());
  int four_bit = 0;
  for (const std::string& name : plain.names()) {
    EXPECT_EQ(packed->info(name).shape, plain.info(name).shape);
    auto want = read(plain, name);
    if (packed->find(name)) {
      ++four_bit;
      FourBitData q = quantize(want, {FourBitBook::nf4, 64, false});
      const FourBitData stored = packed->data(name);
      quantize_absmax(q, stored.nested_offset);
      EXPECT_EQ(q.form, stored.form);
      EXPECT_EQ(q.codes, stored.codes) << name;
      EXPECT_EQ(q.absmax_codes, stored.absmax_codes) << name;
      EXPECT_EQ(q.nested_absmax, stored.nested_absmax) << name;
      EXPECT_NEAR(quantize(want, stored.form).nested_offset, stored.nested_offset, 1e-8);
      dequantize(want, q);
    }
    EXPECT_EQ(read(*packed, name), want) << name;
  }
  EXPECT_EQ(four_bit, 7);
}

TEST(BitsAndBytes, AFolderWithoutThemIsAnyFolder) {
  const auto opened = open_model_folder((kGolden / "plain").string());
  EXPECT_EQ(dynamic_cast<const BitsAndBytesFolder*>(opened.get()), nullptr);
}

// Returns the error about the same file with some bytes replaced.
std::string refused(const std::string& from, const std::string& to) {
  std::string bytes = test::slurp((kGolden / "packed" / "model.safetensors").string());
  const auto at = bytes.find(from);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(from.size(), to.size());
  bytes.replace(at, to.size(), to);
  test::TempFolder folder;
  folder.write("model.safetensors", bytes);
  return test::error_of([&] { open_model_folder(folder.path()); });
}

TEST(BitsAndBytes, ContradictoryMetadataIsRefused) {
  EXPECT_NE(refused("\"blocksize\": 64", "\"blocksize\": 63").find("blocksize must be a power of two, is 63"),
            std::string::npos);
  EXPECT_NE(refused("\"blocksize\": 64", "\"blocksize\": 32").find("should hold"), std::string::npos);
  EXPECT_NE(
      refused("\"quant_type\": \"nf4\"", "\"quant_type\": \"nf5\"").find("quant_type must be nf4 or fp4"),
      std::string::npos);
  EXPECT_NE(refused("\"shape\": [36, 36]", "\"shape\": [36, 37]").find("should hold"), std::string::npos);
  EXPECT_NE(refused("\"shape\": [36, 36]", "\"shape\": [-3, 36]").find("shape must be"), std::string::npos);
  EXPECT_NE(refused("\"nested_dtype\": \"float32\"", "\"nested_dtype\": \"float64\"").find("nested_dtype"),
            std::string::npos);
  EXPECT_NE(refused("{\"quant_type\"", "{\"quant_type ").find("3 "), std::string::npos);
  const float one = 1, other = 0.5;  // the last entry of a quant_map
  const auto raw = [](float v) { return std::string(reinterpret_cast<const char*>(&v), sizeof v); };
  const std::string last = raw(four_bit_values(FourBitBook::nf4).of[14]);
  EXPECT_NE(refused(last + raw(one), last + raw(other)).find("is not bitsandbytes' table"),
            std::string::npos);
}

}  // namespace
}  // namespace ft
