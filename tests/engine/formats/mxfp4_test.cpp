// Stacks of experts in MXFP4: values, and scales that are NaN or too large for bf16.
#include "engine/formats/mxfp4.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/files/safetensors/safetensors_write.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

Tensor bytes(std::vector<std::uint8_t>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), DType::u8, {std::ssize(v)}};
}

// One expert with 32 inputs and one output, which is one block.
class Block {
 public:
  Block(std::vector<std::uint8_t> codes, int scale) {
    codes.resize(16);
    std::vector<std::uint8_t> scales{static_cast<std::uint8_t>(scale)};
    write_safetensors(
        folder_ / "model.safetensors",
        {{"w_blocks", DType::u8, {1, 1, 1, 16}}, {"w_scales", DType::u8, {1, 1, 1}}},
        [&](const TensorSpec& spec) { return bytes(spec.name == "w_blocks" ? codes : scales); });
  }
  std::vector<float> values() const {
    std::vector<float> all(32);
    files().read("w", {reinterpret_cast<std::byte*>(all.data()), DType::f32, {32}});
    return all;
  }
  // Returns the error about the stack as float16.
  std::string fault_of_f16() const {
    std::vector<std::uint16_t> all(32);
    return test::error_of([&] {
      files().read("w", {reinterpret_cast<std::byte*>(all.data()), DType::f16, {32}});
    });
  }
  // Returns the error about the dense stack, which is that about its scales.
  std::string fault() const {
    std::vector<std::uint8_t> scale(1);
    const std::string dense = test::error_of([&] { values(); });
    EXPECT_EQ(test::error_of([&] { files().read("w_scales", bytes(scale)); }), dense);
    return dense;
  }

 private:
  Mxfp4Folder files() const { return Mxfp4Folder(std::make_unique<ModelFolder>(folder_.path())); }
  test::TempFolder folder_;
};

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Mxfp4, ValuesArePowersOfTwoTimesCodes) {
  const std::vector<float> x = Block({0x21, 0xf7}, 128).values();
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 5), (std::vector<float>{1, 2, 12, -12, 0}));
}

TEST(Mxfp4, LargeScalesOfSmallCodesAreRead) {
  EXPECT_EQ(Block({0x05}, 253).values()[0], std::ldexp(3.0f, 126));
  EXPECT_EQ(Block({0x0b}, 254).values()[0], std::ldexp(-1.5f, 127));
  EXPECT_EQ(Block({0x80}, 254).values()[1], 0);
}

TEST(Mxfp4, ScalesThatMakeInfAreRefused) {
  for (const auto& [code, scale] : {std::pair{0x06, 253}, std::pair{0xf0, 253}, std::pair{0x04, 254}}) {
    const std::string fault = Block({static_cast<std::uint8_t>(code)}, scale).fault();
    expect_in(fault, str("w_scales has at element 0 the scale ", scale));
    expect_in(fault, "is Inf");
  }
}

TEST(Mxfp4, ScalesThatAreNanAreRefused) {
  expect_in(Block({}, 255).fault(), "w_scales has a NaN at element 0");
}

TEST(Mxfp4, ValuesBeyondFloat16AreRefusedThere) {
  EXPECT_EQ(Block({0x01}, 127 + 16).fault_of_f16(), "no error");  // 2^15
  expect_in(Block({0x02}, 127 + 16).fault_of_f16(), "w has a value beyond float16 at element 0");
}

}  // namespace
}  // namespace ft
