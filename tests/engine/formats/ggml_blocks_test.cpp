// GGUF's block types against llama.cpp's own quantizer (tests/golden/make_ggml.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/json.h"
#include "engine/formats/gguf/ggml_blocks.h"
#include "tests/support/source.h"

namespace ft {
namespace {

constexpr std::int64_t kRow = 256;

std::string bytes_of(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

struct GgmlGolden {
  Json json = parse_json(read_file(source_path("tests/golden/ggml_blocks.json"), 1 << 20), {"golden"});
  std::vector<float> x;
  GgmlGolden() {
    const std::string bytes = bytes_of(json["x"]);
    x.resize(bytes.size() / sizeof(float));
    std::memcpy(x.data(), bytes.data(), bytes.size());
  }
};

// `bound`: largest error of a dequantized value, as a share of the row's range.
struct GgmlCase {
  GgmlType type;
  float bound;
};
class GgmlBlocks : public testing::TestWithParam<GgmlCase> {};
INSTANTIATE_TEST_SUITE_P(
    Types, GgmlBlocks,
    testing::Values(GgmlCase{GgmlType::q4_0, 1 / 14.f}, GgmlCase{GgmlType::q4_1, 1 / 28.f},
                    GgmlCase{GgmlType::q5_0, 1 / 28.f}, GgmlCase{GgmlType::q5_1, 1 / 60.f},
                    GgmlCase{GgmlType::q8_0, 1 / 240.f}, GgmlCase{GgmlType::iq4_nl, 1 / 12.f},
                    GgmlCase{GgmlType::q4_k, 1 / 16.f}, GgmlCase{GgmlType::q5_k, 1 / 32.f},
                    GgmlCase{GgmlType::q6_k, 1 / 40.f}),
    [](const auto& test) { return std::string(form_of(test.param.type)->name); });

TEST_P(GgmlBlocks, HaveLlamaCppsBytes) {
  const GgmlGolden golden;
  const GgmlForm& form = *form_of(GetParam().type);
  const std::string want = bytes_of(golden.json["types"][form.name]);
  ASSERT_EQ(static_cast<std::int64_t>(want.size()),
            static_cast<std::int64_t>(golden.x.size()) / form.block * form.bytes);
  std::vector<std::uint8_t> got(static_cast<std::size_t>(form.bytes));
  for (std::size_t i = 0, at = 0; i < golden.x.size();
       i += static_cast<std::size_t>(form.block), at += got.size()) {
    form.quantize(golden.x.data() + i, got.data());
    EXPECT_EQ(std::memcmp(got.data(), want.data() + at, got.size()), 0) << form.name << ", value " << i;
  }
}

TEST_P(GgmlBlocks, ComeBackNearby) {
  const GgmlGolden golden;
  const GgmlForm& form = *form_of(GetParam().type);
  std::vector<std::uint8_t> block(static_cast<std::size_t>(form.bytes));
  std::vector<float> back(static_cast<std::size_t>(kRow));
  for (std::size_t row = 0; row < golden.x.size(); row += kRow) {
    const float* x = golden.x.data() + row;
    for (std::int64_t i = 0; i < kRow; i += form.block) {
      form.quantize(x + i, block.data());
      form.dequantize(block.data(), back.data() + i);
    }
    const auto [low, high] = std::minmax_element(x, x + kRow);
    const float range = std::max(*high, 0.0f) - std::min(*low, 0.0f);
    for (std::int64_t i = 0; i < kRow; ++i)
      EXPECT_NEAR(back[static_cast<std::size_t>(i)], x[i], GetParam().bound * range + 1e-7f)
          << form.name << ", row " << row / kRow;
  }
}

struct ReadType {
  GgmlType type;
  std::vector<std::size_t> numbers;  // places of f16 numbers in a block
};
class GgmlBlocksRead : public testing::TestWithParam<ReadType> {};
INSTANTIATE_TEST_SUITE_P(Types, GgmlBlocksRead,
                         testing::Values(ReadType{GgmlType::q2_k, {80, 82}}, ReadType{GgmlType::q3_k, {108}},
                                         ReadType{GgmlType::iq4_xs, {0}}, ReadType{GgmlType::iq2_xxs, {0}},
                                         ReadType{GgmlType::iq2_xs, {0}}, ReadType{GgmlType::iq2_s, {0}},
                                         ReadType{GgmlType::iq3_xxs, {0}}, ReadType{GgmlType::iq3_s, {0}},
                                         ReadType{GgmlType::iq1_s, {0}}, ReadType{GgmlType::iq1_m, {}},
                                         ReadType{GgmlType::tq1_0, {52}}, ReadType{GgmlType::tq2_0, {64}},
                                         ReadType{GgmlType::mxfp4, {}}),
                         [](const auto& test) { return std::string(form_of(test.param.type)->name); });

std::vector<float> values_of(const GgmlForm& form, const std::string& blocks) {
  const auto count = blocks.size() / static_cast<std::size_t>(form.bytes);
  std::vector<float> values(count * static_cast<std::size_t>(form.block));
  const auto* x = reinterpret_cast<const std::uint8_t*>(blocks.data());
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(form.block), x += form.bytes)
    form.dequantize(x, values.data() + i);
  return values;
}

// The same bytes as noise() and many() in make_ggml_read.py.
std::string many_blocks(const GgmlForm& form, const ReadType& read) {
  const auto size = static_cast<std::size_t>(form.bytes);
  std::string blocks(1024 * size, '\0');
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    std::uint32_t h = (i + 1) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822507u;
    h ^= h >> 13;
    blocks[i] = static_cast<char>(h >> 24);
  }
  for (std::size_t block = 0; block < blocks.size(); block += size) {
    for (const std::size_t at : read.numbers)
      blocks[block + at + 1] = static_cast<char>((blocks[block + at + 1] & 3) | 0x20);
    if (read.type == GgmlType::iq1_m)
      blocks[block + 55] = static_cast<char>((blocks[block + 55] & 15) | 0x20);
  }
  return blocks;
}

// tests/golden/make_ggml_read.py
TEST_P(GgmlBlocksRead, HaveTheGgufPackagesValues) {
  const Json golden = parse_json(read_file(source_path("tests/golden/ggml_read.json"), 1 << 20), {"golden"});
  const GgmlForm& form = *form_of(GetParam().type);
  EXPECT_EQ(form.quantize, nullptr);
  const std::string values = bytes_of(golden[form.name]["values"]);
  std::vector<float> want(values.size() / sizeof(float));
  std::memcpy(want.data(), values.data(), values.size());
  ASSERT_FALSE(want.empty());
  EXPECT_EQ(values_of(form, bytes_of(golden[form.name]["blocks"])), want);
  const std::vector<float> many = values_of(form, many_blocks(form, GetParam()));
  EXPECT_EQ(sha256({reinterpret_cast<const char*>(many.data()), many.size() * sizeof(float)}),
            golden[form.name]["sha256"]);
}

}  // namespace
}  // namespace ft
