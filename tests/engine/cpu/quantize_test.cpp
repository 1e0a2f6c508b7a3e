// Quantizing on every target has the bits of the formulas of engine/quant/four_bit.h: for all types, sizes
// and blocks, numbers exactly between two values, zeros, and infinities and NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/random.h"
#include "engine/core/tensor.h"
#include "engine/cpu/quantize.h"
#include "engine/cpu/target.h"

namespace ft::cpu {
namespace {

struct Codes {
  std::vector<std::uint8_t> codes;
  std::vector<float> absmax;
  bool operator==(const Codes&) const = default;
  Codes(std::size_t n, std::size_t block) : codes((n + 1) / 2), absmax((n + block - 1) / block) {}
};

Codes by_formulas(const std::vector<float>& x, FourBitBook book, std::size_t block) {
  Codes y(x.size(), block);
  const FourBitTable table = four_bit_table(book);
  const FourBitBounds bounds = four_bit_bounds(book);
  for (std::size_t b = 0; b < y.absmax.size(); ++b)
    for (std::size_t i = b * block; i < std::min(x.size(), (b + 1) * block); ++i)
      y.absmax[b] = std::max(y.absmax[b], std::fabs(x[i]));
  for (std::size_t i = 0; i < 2 * y.codes.size(); ++i) {
    const float most = i < x.size() ? y.absmax[i / block] : 0, scale = most > 0 ? 1 / most : 0;
    const std::uint8_t code = table.codes[four_bit_place(bounds, i < x.size() ? x[i] * scale : 0)];
    y.codes[i / 2] = static_cast<std::uint8_t>(y.codes[i / 2] | (i % 2 == 0 ? code << 4 : code));
  }
  return y;
}

struct Named {
  std::string name;
  const QuantizeKernels& kernels;
};
std::vector<Named> all_kernels() {
  std::vector<Named> all;
  for (const Target t : usable_targets()) all.push_back({name_of(t), quantize_kernels_of(t)});
  return all;
}

// Compares the kernel's result for x, rounded to T, with the formulas.
template <class T>
void check(const Named& set, std::vector<float> x, FourBitBook book, std::size_t block) {
  std::vector<T> narrow(x.size());  // its own memory: ASan detects every access beyond it
  for (std::size_t i = 0; i < x.size(); ++i) {
    from_float(narrow[i], x[i]);
    x[i] = to_float(narrow[i]);
  }
  Codes got(x.size(), block);
  EXPECT_TRUE(set.kernels.run(got.codes.data(), got.absmax.data(), narrow.data(), DTypeOf<T>::value,
                              static_cast<std::int64_t>(x.size()), static_cast<std::int64_t>(block),
                              places_of(book)));
  EXPECT_TRUE(got == by_formulas(x, book, block)) << set.name << " " << name_of(DTypeOf<T>::value) << " "
                                                  << name_of(book) << " " << x.size() << " by " << block;
}
void check_types(const Named& set, const std::vector<float>& x, std::size_t block) {
  for (const FourBitBook book : {FourBitBook::nf4, FourBitBook::fp4}) {
    check<float>(set, x, book, block);
    check<bf16>(set, x, book, block);
    check<f16>(set, x, book, block);
  }
}

TEST(QuantizeKernels, TheBitsOfTheFormulas) {
  for (const Named& set : all_kernels())
    for (const std::size_t block : {32, 64, 4096})
      for (const std::size_t n : {0, 1, 2, 15, 16, 17, 31, 64, 65, 127, 4096, 4099, 10001}) {
        std::vector<float> x(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = to_uniform(Random{n}.at(i)[0]) - 0.5f;
        check_types(set, x, block);
      }
}

// The bounds between codes and their neighbours; blocks of zeros; a block so small that 1 / absmax is
// infinite.
TEST(QuantizeKernels, TiesZerosAndTheSmallestNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const FourBitBook book : {FourBitBook::nf4, FourBitBook::fp4}) {
    std::vector<float> x{1};
    for (const float b : four_bit_bounds(book).of)
      for (const float v : {std::nextafter(b, -kInfinity), b, std::nextafter(b, kInfinity)}) x.push_back(v);
    x.resize(64);
    for (const float v : {0.0f, -0.0f, 1e-40f, -2e-40f, 0.0f}) x.insert(x.end(), 13, v);
    x.push_back(3e-39f);
    for (const Named& set : all_kernels())
      for (const std::size_t block : {32, 64, 128}) check_types(set, x, block);
  }
}

TEST(QuantizeKernels, NonFiniteNumbersAreFoundAnywhere) {
  for (const Named& set : all_kernels())
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY})
      for (const std::size_t at : {0, 7, 40, 63, 64, 98}) {
        std::vector<float> x(99, 0.5f);
        x[at] = bad;
        Codes y(x.size(), 64);
        EXPECT_FALSE(set.kernels.run(y.codes.data(), y.absmax.data(), x.data(), DType::f32, 99, 64,
                                     places_of(FourBitBook::nf4)))
            << set.name << " " << bad << " " << at;
      }
}

}  // namespace
}  // namespace ft::cpu
