// Numbers and matrices in FP8 against torch's float8_e4m3fn, and folders in the public forms of FP8.
#include "engine/formats/fp8.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/core/error.h"
#include "engine/core/random.h"
#include "engine/cpu/quantize.h"
#include "engine/cpu/target.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/formats/bitsandbytes.h"
#include "engine/formats/fp8_folder.h"
#include "engine/formats/fp8_write.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const std::filesystem::path kFp8Golden = source_path("tests/golden/fp8");

template <class T>
std::vector<T> golden(const std::string& file, const std::string& name) {
  const SafetensorsFile from((kFp8Golden / file).string());
  const StoredTensor* t = from.find(name);
  EXPECT_NE(t, nullptr) << name;
  std::vector<T> values(static_cast<std::size_t>(t->numel));
  from.read(*t, Tensor(reinterpret_cast<std::byte*>(values.data()), DTypeOf<T>::value, {t->numel}));
  return values;
}

int fp8_code_of(float x) {
  e4m3 code;
  from_float(code, x);
  return code.bits;
}

ReadElements reads_from(const std::vector<float>& x) {
  return [&x](const Tensor& to, std::int64_t first) {
    std::copy_n(x.data() + first, to.numel(), to.as<float>());
  };
}

TEST(Fp8, NumbersAreTorchs) {
  const auto values = golden<float>("numbers.safetensors", "values");
  for (std::size_t i = 0; i < 256; ++i) {
    const e4m3 code{static_cast<std::uint8_t>(i)};
    EXPECT_EQ(is_nan(code), (i & 127) == 127);
    EXPECT_EQ(std::isnan(to_float(code)), is_nan(code));
    if (!is_nan(code)) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(to_float(code)), std::bit_cast<std::uint32_t>(values[i])) << i;
    }
    EXPECT_EQ(fp8_code_of(to_float(code)), int(i));
  }
}

TEST(Fp8, RoundsAsTorch) {
  const auto narrow = golden<std::uint8_t>("numbers.safetensors", "bf16");
  ASSERT_EQ(narrow.size(), 65536u);
  for (std::size_t i = 0; i < narrow.size(); ++i)
    ASSERT_EQ(fp8_code_of(to_float(bf16{static_cast<std::uint16_t>(i)})), narrow[i]) << std::hex << i;
  const auto bits = golden<std::int32_t>("numbers.safetensors", "f32.bits");
  const auto codes = golden<std::uint8_t>("numbers.safetensors", "f32.codes");
  for (std::size_t i = 0; i < bits.size(); ++i)
    ASSERT_EQ(fp8_code_of(std::bit_cast<float>(bits[i])), codes[i]) << std::bit_cast<float>(bits[i]);
}

// An independent definition: the nearest of all numbers, and of two the one whose code is even.
TEST(Fp8, RoundsToTheNearest) {
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const auto draw = Random{4}.at(i);
    const float x = std::ldexp(2 * to_uniform(draw[0]) - 1, int(draw[1] % 24) - 13);
    int best = 0;
    for (int c = 0; c < 127; ++c) {
      const auto far = [&](int code) {
        return std::fabs(std::fabs(double{x}) - to_float(e4m3{std::uint8_t(code)}));
      };
      if (far(c) < far(best) || (far(c) == far(best) && c % 2 == 0)) best = c;
    }
    ASSERT_EQ(fp8_code_of(x), best | (std::signbit(x) ? 128 : 0)) << x;
  }
}

TEST(Fp8, ScalesOfEdges) {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(fp8_scale(0), 0x1p-126f);
  EXPECT_EQ(fp8_code(0, fp8_scale(0)).bits, 0);
  EXPECT_EQ(fp8_scale(448), 1);
  EXPECT_EQ(fp8_scale(kLeast), 0x1p-126f);
  EXPECT_EQ(fp8_code(kLeast, fp8_scale(kLeast)).bits, 0);
  EXPECT_EQ(to_float(fp8_code(0x1p-126f, fp8_scale(0x1p-126f))), 1);
  EXPECT_TRUE(std::isnan(fp8_scale(NAN)));
  EXPECT_TRUE(std::isinf(fp8_scale(INFINITY)));
  EXPECT_TRUE(is_nan(fp8_code(INFINITY, INFINITY)));
  EXPECT_EQ(fp8_code(1e30f, 1).bits, 0x7e);
  EXPECT_EQ(fp8_code(-INFINITY, 1).bits, 0xfe);
}

TEST(Fp8, RowsAreTorchs) {
  const auto w = golden<float>("matrix.safetensors", "w");
  const Fp8Data q = quantize_fp8(12, 200, DType::f32, kFp8Channels, reads_from(w));
  EXPECT_EQ(q.scales, golden<float>("matrix.safetensors", "scales"));
  EXPECT_EQ(q.codes, golden<std::uint8_t>("matrix.safetensors", "codes"));
}

// Matrices of all sizes around a tile's and a thread's, on every target.
TEST(Fp8, MatricesHaveTheCodesOfTheFormula) {
  for (const Fp8Scheme scheme : {kFp8Channels, kFp8Blocks})
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                     {3, 63},
                                     {129, 257},
                                     {128, 128},
                                     {1, 600'000},
                                     {2000, 300}}) {
      std::vector<float> w(static_cast<std::size_t>(rows * cols));
      for (std::size_t i = 0; i < w.size(); ++i) {
        w[i] = to_uniform(Random{5}.at(i)[0]) - 0.5f;
        if (i % 7 == 0) w[i] *= 1e-6f;
      }
      const Fp8Data q = quantize_fp8(rows, cols, DType::f32, scheme, reads_from(w));
      std::vector<float> dense(w.size()), part(static_cast<std::size_t>(std::min<std::int64_t>(cols, 33)));
      dequantize(dense, q);
      dequantize(part, q, rows * cols - std::ssize(part));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), dense.end() - std::ssize(part)));
      const std::int64_t width = scheme.cols == 0 ? cols : scheme.cols;
      for (std::int64_t top = 0; top < rows; top += scheme.rows)
        for (std::int64_t left = 0; left < cols; left += width) {
          float most = 0;
          const auto each = [&](const auto& f) {
            for (std::int64_t r = top; r < std::min(rows, top + scheme.rows); ++r)
              for (std::int64_t c = left; c < std::min(cols, left + width); ++c)
                f(static_cast<std::size_t>(r * cols + c));
          };
          each([&](std::size_t i) { most = std::max(most, std::fabs(w[i])); });
          const float scale = fp8_scale(most);
          const std::int64_t at = top / scheme.rows * scheme.scale_cols(cols) + left / width;
          ASSERT_EQ(q.scales[static_cast<std::size_t>(at)], scale);
          each([&](std::size_t i) {
            const e4m3 code = fp8_code(w[i], scale);
            ASSERT_EQ(q.codes[i], code.bits);
            ASSERT_EQ(dense[i], to_float(code) * scale);
          });
        }
    }
}

TEST(Fp8, EveryTargetMakesTheSameCodes) {
  const auto x = golden<float>("matrix.safetensors", "w");
  std::vector<std::vector<std::uint8_t>> codes;
  std::vector<float> scales;
  for (const cpu::Target t : cpu::usable_targets()) {
    const auto run = cpu::quantize_kernels_of(t).fp8;
    codes.emplace_back(x.size());
    float scale = 0;
    EXPECT_TRUE(run(codes.back().data(), &scale, x.data(), DType::f32, 12, 199, 200));
    scales.push_back(scale);
    EXPECT_EQ(codes.back(), codes[0]);
    EXPECT_EQ(scale, scales[0]);
    const float bad[] = {1, NAN, 2};
    std::uint8_t none[3];
    EXPECT_FALSE(run(none, &scale, bad, DType::f32, 1, 3, 3));
  }
}

TEST(Fp8, NumbersThatAreNotFiniteAreRefused) {
  const std::vector<float> w = {1, INFINITY};
  EXPECT_THROW(quantize_fp8(1, 2, DType::f32, kFp8Channels, reads_from(w)), InternalError);
}

std::vector<float> values_in(const WeightSource& source, const std::string& name) {
  std::int64_t n = 1;
  for (const auto d : source.info(name).shape) n *= d;
  std::vector<float> all(static_cast<std::size_t>(n));
  source.read(name, Tensor(reinterpret_cast<std::byte*>(all.data()), DType::f32, {n}));
  return all;
}

TEST(Fp8Folder, ThePublicFormsAreTheDenseModel) {
  for (const auto& [form, scheme] :
       {std::pair{"block", kFp8Blocks}, {"channel", kFp8Channels}, {"tensor", kFp8Tensor}}) {
    SCOPED_TRACE(form);
    const auto opened = open_model_folder((kFp8Golden / form).string());
    const auto* folder = dynamic_cast<const Fp8Folder*>(opened.get());
    ASSERT_NE(folder, nullptr);
    int count = 0;
    for (const std::string& name : folder->names()) {
      EXPECT_EQ(name.find("_scale"), std::string::npos);
      EXPECT_EQ(folder->info(name).type, StoredType::bf16);
      const StoredFp8* s = folder->find(name);
      if (!s) continue;
      ++count;
      EXPECT_EQ(s->scheme, scheme);
      const Fp8Data q = folder->data(name);
      std::vector<float> dense(q.codes.size());
      dequantize(dense, q);
      for (float& v : dense) {
        bf16 rounded;
        from_float(rounded, v);
        v = to_float(rounded);
      }
      EXPECT_EQ(values_in(*folder, name), dense);
    }
    EXPECT_EQ(count, 7);
  }
}

TEST(Fp8Folder, IsReadBySeveralThreads) {
  const auto folder = open_model_folder((kFp8Golden / "channel").string());
  const std::string names[] = {"model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.gate_proj.weight"};
  std::vector<float> want[2];
  for (std::size_t i = 0; i < 2; ++i) want[i] = values_in(*folder, names[i]);
  ASSERT_NE(want[0], want[1]);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 100; ++turn)
        if (values_in(*folder, names[i % 2]) != want[i % 2]) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// A file with one weight (rows, cols) and its scales; returns the error about it.
struct OneWeight {
  std::int64_t rows = 130, cols = 140;
  std::string scales = "w.weight_scale";
  Shape shape = {1};
  std::uint8_t code = 0x38;
  float scale = 0.5f;
  bool e4m3 = true;

  void write(const test::TempFolder& to) const {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * cols), 0x38);
    codes.back() = code;
    std::vector<float> s(static_cast<std::size_t>(shape.numel()), scale);
    std::vector<TensorSpec> specs = {{"w.weight", DType::u8, {rows, cols}, e4m3},
                                     {"w.input_scale", DType::f32, {1}}};
    if (!scales.empty()) specs.push_back({scales, DType::f32, shape});
    write_safetensors(
        to.path() + "/model.safetensors", specs,
        [&](const TensorSpec& t) {
          auto* data = t.dtype == DType::u8 ? reinterpret_cast<std::byte*>(codes.data())
                                            : reinterpret_cast<std::byte*>(s.data());
          return Tensor(data, t.dtype, t.shape);
        },
        {}, Nonfinite::allow);
  }
  std::string error() const {
    test::TempFolder folder;
    write(folder);
    return test::error_of([&] {
      const auto opened = open_model_folder(folder.path());
      values_in(*opened, "w.weight");
    });
  }
};

TEST(Fp8Folder, ReadsOneScaleRowsAndBlocks) {
  for (const Shape& shape : {Shape{1}, Shape{1, 1}, Shape{130}, Shape{130, 1}, Shape{2, 2}}) {
    test::TempFolder folder;
    OneWeight{.shape = shape}.write(folder);
    const auto opened = open_model_folder(folder.path());
    EXPECT_EQ(opened->names(), std::vector<std::string>{"w.weight"});
    EXPECT_FALSE(opened->has("w.weight_scale"));
    EXPECT_EQ(values_in(*opened, "w.weight"), std::vector<float>(130 * 140, 0.5f));
    EXPECT_TRUE(opened->find_stored("w.weight", DType::u8, 130 * 140));
  }
}

TEST(Fp8Folder, RefusesOtherParts) {
  EXPECT_NE(OneWeight{.shape = {3}}.error().find("is [130, 140] with scales [3]; ft reads one scale"),
            std::string::npos);
  EXPECT_NE((OneWeight{.shape = {2, 3}}.error().find("with scales [2, 3]")), std::string::npos);
  EXPECT_NE(OneWeight{.scales = ""}.error().find("is F8_E4M3 and has no scales"), std::string::npos);
  EXPECT_NE(OneWeight{.scales = "other"}.error().find("has no scales"), std::string::npos);
  EXPECT_NE(OneWeight{.code = 0xff}.error().find("w.weight has a NaN at [129, 139]"), std::string::npos);
  EXPECT_NE(OneWeight{.scale = INFINITY}.error().find("NaN or Inf"), std::string::npos);
  EXPECT_NE((OneWeight{.code = 0x7e, .scale = 3e36f}.error().find("too large for bfloat16 at [129, 139]")),
            std::string::npos);
  EXPECT_NE(OneWeight{.e4m3 = false}.error().find("is U8; ft reads"), std::string::npos);
}

TEST(Fp8Folder, IsWrittenInCompressedTensorsForm) {
  test::TempFolder folder;
  const auto w = golden<float>("matrix.safetensors", "w");
  Fp8Data q = quantize_fp8(12, 200, DType::f32, kFp8Channels, reads_from(w));
  write_safetensors(folder.path() + "/model.safetensors", fp8_specs("a.weight", {12, 200}), {});
  {
    SafetensorsFiller files(folder.path());
    write_fp8(files, "a.weight", q);
  }
  const Fp8Folder written(std::make_unique<ModelFolder>(folder.path()));
  EXPECT_EQ(written.data("a.weight").codes, q.codes);
  EXPECT_EQ(written.data("a.weight").scales, q.scales);
  EXPECT_EQ(written.find("a.weight")->scheme, kFp8Channels);
  const Json config = fp8_config({"lm_head"});
  EXPECT_EQ(config["format"], "float-quantized");
  EXPECT_EQ(config["ignore"], Json::array({"lm_head"}));
  EXPECT_EQ(config["config_groups"]["group_0"]["weights"]["strategy"], "channel");
}

}  // namespace
}  // namespace ft
