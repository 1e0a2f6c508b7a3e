// The codec of 4-bit blocks against bitsandbytes' own outputs: a few committed matrices, more of them in
// ../shared/accept/cases/nf4 if that folder exists next to the repository; and properties that hold for any
// input.
#include "engine/formats/four_bit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/core/error.h"
#include "engine/core/random.h"
#include "engine/files/safetensors/safetensors.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const std::filesystem::path kSource = source_path("");

template <class T>
std::vector<T> read(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor* t = file.find(name);
  EXPECT_NE(t, nullptr) << name;
  std::vector<T> values(static_cast<std::size_t>(t->numel));
  file.read(*t, Tensor(reinterpret_cast<std::byte*>(values.data()), DTypeOf<T>::value, {t->numel}));
  return values;
}

// Returns true if a and b differ by at most one unit in the last place, or by a denormal that was flushed to
// zero.
bool close(float a, float b) { return std::fabs(a - b) <= std::max(1e-37f, 1.2e-7f * std::fabs(b)); }

struct Golden {
  SafetensorsFile input, expected;
  explicit Golden(const std::filesystem::path& folder)
      : input((folder / "input.safetensors").string()),
        expected((folder / "expected.safetensors").string()) {}

  // Compares dequantized values in the matrix's type, converted to f32.
  void check_values(const FourBitData& q, const std::string& name, bool narrow, bool exact) {
    const auto want = read<float>(expected, name);
    std::vector<float> got(want.size());
    dequantize(got, q);
    for (std::size_t i = 0; i < got.size(); ++i) {
      bf16 rounded{};
      from_float(rounded, got[i]);
      const float v = narrow ? to_float(rounded) : got[i];
      ASSERT_TRUE(exact ? v == want[i] : close(v, want[i])) << name << " " << i << " " << v << " " << want[i];
    }
  }
  void check_codes(const FourBitData& q, const std::string& key) {
    const auto codes = read<std::uint8_t>(expected, key + ".codes");
    EXPECT_EQ(q.absmax, read<float>(expected, key + ".absmax")) << key;
    ASSERT_EQ(q.codes.size(), codes.size());
    for (std::int64_t i = 0; i < q.elements; ++i)
      if (q.absmax[static_cast<std::size_t>(i / q.form.block)] > 0) {  // zeros have several codes
        ASSERT_EQ(four_bit_code(q.codes.data(), i), four_bit_code(codes.data(), i)) << key << " " << i;
      }
    if (q.elements % 2 != 0) {
      EXPECT_EQ(q.codes.back() & 15, codes.back() & 15);
    }
  }
  void check_nested(FourBitData q, const std::string& key, bool narrow) {
    const float offset = read<float>(expected, key + ".nested.offset")[0];
    double sum = 0;
    for (const float a : q.absmax) sum += a;
    EXPECT_NEAR(sum / static_cast<double>(q.absmax.size()), offset, 2.4e-7 * offset);
    quantize_absmax(q, offset);
    const auto codes = read<std::uint8_t>(expected, key + ".nested.codes");
    EXPECT_EQ(q.nested_absmax, read<float>(expected, key + ".nested.absmax")) << key;
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (q.nested_absmax[i / kNestedBlock] > 0) {
        ASSERT_EQ(q.absmax_codes[i], codes[i]) << key << " " << i;
      }
    check_values(q, key + ".nested.dequantized", narrow, true);
  }
  int check_all() {
    int checked = 0;
    const std::string end = ".absmax";
    for (const StoredTensor& t : expected.tensors()) {
      if (!t.name.ends_with(end) || t.name.ends_with(".nested.absmax")) continue;
      const std::string key = t.name.substr(0, t.name.size() - end.size());  // matrix.type.block
      const auto dot = key.find('.'), dot2 = key.rfind('.');
      const FourBitForm form{key.substr(dot + 1, 3) == "nf4" ? FourBitBook::nf4 : FourBitBook::fp4,
                             std::stoll(key.substr(dot2 + 1)), false};
      const std::string matrix = key.substr(0, dot);
      const bool narrow = input.find(matrix)->type == StoredType::bf16, edge = key.starts_with("edge_");
      const FourBitData q = quantize(read<float>(input, matrix), form);
      if (!edge) check_codes(q, key);
      check_values(q, key + ".dequantized", narrow, !edge);
      if (!edge && expected.find(key + ".nested.codes")) check_nested(q, key, narrow);
      ++checked;
    }
    return checked;
  }
  void check_maps() {
    for (const FourBitBook book : {FourBitBook::nf4, FourBitBook::fp4}) {
      const auto want = read<float>(expected, std::string("map.") + name_of(book));
      for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(four_bit_values(book).of[i], want[i]) << i;
    }
    const auto want = read<float>(expected, "map.dynamic");
    for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(nested_map()[i], want[i]) << i;
  }
};

TEST(FourBit, TheBitsOfBitsandbytes) {
  Golden golden(kSource / "tests" / "golden" / "four_bit");
  golden.check_maps();
  EXPECT_EQ(golden.check_all(), 13);
}

TEST(FourBit, AllMatricesOfTheFinishedCases) {
  for (const char* up : {"..", "../.."}) {
    const auto folder = kSource / up / "shared" / "accept" / "cases" / "nf4";
    if (!exists(folder)) continue;
    Golden golden(folder);
    golden.check_maps();
    EXPECT_GE(golden.check_all(), 30);
    return;
  }
  GTEST_SKIP() << "no finished cases beside the repository";
}

std::vector<float> random_values(std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    x[static_cast<std::size_t>(i)] = to_uniform(Random{7}.at(static_cast<std::uint64_t>(i))[0]) - 0.5f;
  return x;
}

// Numbers of any size get the code of the nearest value; quantizing again changes nothing.
TEST(FourBit, NearestValuesOfAnySize) {
  for (const FourBitBook book : {FourBitBook::nf4, FourBitBook::fp4})
    for (const std::int64_t block : {32, 64, 4096})
      for (const std::int64_t n : {0, 1, 2, 31, 65, 4097, 600001}) {
        const auto x = random_values(n);
        const FourBitData q = quantize(x, {book, block});
        ASSERT_EQ(q.codes.size(), x.size() / 2 + x.size() % 2);
        ASSERT_EQ(static_cast<std::int64_t>(q.absmax.size()), (n + block - 1) / block);
        std::vector<float> y(x.size());
        dequantize(y, q);
        const FourBitValues values = four_bit_values(book);
        for (std::size_t i = 0; i<x.size(); i += n> 10000 ? 97 : 1) {
          double best = 1e9;
          const double scale = q.absmax[i / static_cast<std::size_t>(block)];
          for (const float v : values.of) best = std::min(best, std::fabs(v * scale - x[i]));
          ASSERT_NEAR(std::fabs(double{y[i]} - x[i]), best, 1e-7);
        }
        std::vector<float> again(x.size());
        dequantize(again, quantize(y, {book, block}));
        EXPECT_EQ(again, y);
      }
}

TEST(FourBit, PartsEqualThoseOfTheCompleteWeight) {
  const auto x = random_values(1003);
  const FourBitData q = quantize(x, {FourBitBook::nf4, 64, true});
  std::vector<float> whole(x.size());
  dequantize(whole, q);
  for (const std::size_t first : {0, 1, 63, 64, 1002}) {
    std::vector<float> part(std::min<std::size_t>(130, x.size() - first));
    dequantize(part, q, static_cast<std::int64_t>(first));
    for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[first + i]);
  }
}

TEST(FourBit, ZerosStayZerosAndNonFiniteNumbersAreRefused) {
  std::vector<float> x(130, 0.0f), y(130, 1.0f);
  for (const bool nested : {false, true}) {
    dequantize(y, quantize(x, {FourBitBook::nf4, 64, nested}));
    for (const float v : y) EXPECT_EQ(v, 0);
  }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    x[129] = bad;
    EXPECT_THROW(quantize(x, {}), InternalError);
  }
}

}  // namespace
}  // namespace ft
