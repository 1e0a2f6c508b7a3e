// op::FakeQuantize of every target: the values of GGUF's blocks, bit for bit.
#include <cmath>
#include <limits>

#include "engine/formats/gguf/ggml_blocks.h"
#include "tests/engine/cpu/leaf_fixture.h"

namespace ft::cpu {
namespace {

const std::vector<Size> kWholeBlocks{{1, 32}, {3, 64}, {5, 96}, {79, 224}};
constexpr BlockFormat kFormats[] = {BlockFormat::q4_0, BlockFormat::q8_0};

// Returns the values after the writer and the reader of GGUF files.
std::vector<double> stored(BlockFormat format, const std::vector<double>& values) {
  const GgmlForm& form = *form_of(format == BlockFormat::q4_0 ? GgmlType::q4_0 : GgmlType::q8_0);
  std::vector<double> back;
  for (std::size_t at = 0; at < values.size(); at += kBlockOfCodes) {
    float x[kBlockOfCodes], y[kBlockOfCodes];
    std::copy_n(values.begin() + std::ptrdiff_t(at), kBlockOfCodes, x);
    std::uint8_t block[64];
    form.quantize(x, block);
    form.dequantize(block, y);
    back.insert(back.end(), y, y + kBlockOfCodes);
  }
  return back;
}

TEST(FakeQuantize, HasTheValuesOfAGgufFile) {
  each_trial(kWholeBlocks, [](const Trial& s) {
    for (const BlockFormat format : kFormats)
      for (const DType from : {s.type, DType::f32}) {
        Matrix &x = s.matrix(s.rows, s.cols, from).randomize(1, 0.05), &y = s.matrix(2);
        Matrix want(s.rows, s.cols, s.type);
        want.assign(stored(format, x.values()));
        s.ops.run(op::FakeQuantize{.y = y, .x = x, .format = format});
        ASSERT_EQ(y.values(), want.values()) << name_of(format) << " of " << name_of(from);
        Matrix within(s.rows, s.cols, from);
        within.assign(stored(format, x.values()));
        s.ops.run(op::FakeQuantize{.y = x, .x = x, .format = format});
        ASSERT_EQ(x.values(), within.values()) << name_of(format) << ", in place";
      }
  });
}

// Codes are as far from their elements as half a step of the scale, which has a relative error of 2^-11. Q4_0
// has no code for the negative of its furthest element, which may be a whole step away.
TEST(FakeQuantize, IsNearTheElements) {
  each_trial(kWholeBlocks, [](const Trial& s) {
    Matrix &x = s.matrix(s.rows, s.cols, DType::f32).randomize(7), &y = s.matrix(s.rows, s.cols, DType::f32);
    for (const auto& [format, steps, most] :
         {std::tuple{BlockFormat::q4_0, 1.0, 8.0}, {BlockFormat::q8_0, 0.5, 127.0}}) {
      s.ops.run(op::FakeQuantize{.y = y, .x = x, .format = format});
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = 0; c < s.cols; ++c) {
          double largest = 0;
          for (std::int64_t i = c / 32 * 32; i < c / 32 * 32 + 32; ++i)
            largest = std::max(largest, std::abs(x.get(r, i)));
          EXPECT_NEAR(y.get(r, c), x.get(r, c), largest / most * steps * 1.0001 + largest * 0x1p-11);
        }
    }
  });
}

// Blocks of one value, of zeros, of numbers whose scale float16 does not have, and of equal magnitudes.
TEST(FakeQuantize, OfUnusualBlocks) {
  each_trial({{1, 32}}, [](const Trial& s) {
    std::vector<std::vector<double>> blocks{std::vector<double>(32, 0.0), std::vector<double>(32, -0.75),
                                            std::vector<double>(32, 1e-7), std::vector<double>(32, 1e-30)};
    blocks.push_back(std::vector<double>(32, 0.0));
    blocks.back()[31] = 3;
    for (const double first : {0.5, -0.5}) {
      blocks.push_back(std::vector<double>(32, 0.125));
      blocks.back()[4] = first, blocks.back()[20] = -first;
    }
    for (const auto& block : blocks)
      for (const BlockFormat format : kFormats) {
        Matrix &x = s.matrix(1), &y = s.matrix(2);
        x.assign(block);
        Matrix want(1, 32, s.type);
        want.assign(stored(format, x.values()));
        s.ops.run(op::FakeQuantize{.y = y, .x = x, .format = format});
        ASSERT_EQ(y.values(), want.values()) << name_of(format) << " " << block[0] << " " << block[4];
      }
  });
}

TEST(FakeQuantize, ABlockThatIsNotFiniteBecomesNaN) {
  each_trial({{2, 64}}, [](const Trial& s) {
    for (const double wrong :
         {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()})
      for (const BlockFormat format : kFormats) {
        Matrix &x = s.matrix(1), &y = s.matrix(2);
        x.set(1, 40, wrong);
        s.ops.run(op::FakeQuantize{.y = y, .x = x, .format = format});
        for (std::int64_t r = 0; r < 2; ++r)
          for (std::int64_t c = 0; c < 64; ++c)
            EXPECT_EQ(std::isnan(y.get(r, c)), r == 1 && c >= 32) << r << " " << c;
      }
  });
}

TEST(FakeQuantize, RefusesPartsOfBlocks) {
  CpuOps ops(1);
  Matrix x(2, 48, DType::f32), y(2, 48, DType::f32);
  EXPECT_THROW(ops.run(op::FakeQuantize{.y = y, .x = x, .format = BlockFormat::q8_0}), InternalError);
}

}  // namespace
}  // namespace ft::cpu
