// GGUF's block types against llama.cpp's own quantizer (tests/golden/make_ggml.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"
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

// Types that ft only reads give the gguf package's values (tests/golden/make_ggml_read.py).
TEST(GgmlBlocksRead, HaveTheGgufPackagesValues) {
  const Json golden = parse_json(read_file(source_path("tests/golden/ggml_read.json"), 1 << 20), {"golden"});
  for (const GgmlType type : {GgmlType::q2_k, GgmlType::q3_k, GgmlType::iq4_xs}) {
    const GgmlForm& form = *form_of(type);
    const std::string blocks = bytes_of(golden[form.name]["blocks"]),
                      values = bytes_of(golden[form.name]["values"]);
    std::vector<float> want(values.size() / sizeof(float)), got(want.size());
    std::memcpy(want.data(), values.data(), values.size());
    ASSERT_EQ(static_cast<std::int64_t>(blocks.size()) / form.bytes * form.block, std::ssize(want));
    const auto* x = reinterpret_cast<const std::uint8_t*>(blocks.data());
    for (std::size_t i = 0; i < want.size(); i += static_cast<std::size_t>(form.block), x += form.bytes)
      form.dequantize(x, got.data() + i);
    EXPECT_EQ(got, want) << form.name;
  }
}

}  // namespace
}  // namespace ft
