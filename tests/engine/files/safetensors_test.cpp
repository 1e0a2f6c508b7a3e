// Reading safetensors: each check of the reference implementation with its message, conversions, and damage.
#include "engine/files/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "engine/files/convert.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::error_of;
using test::TempFolder;

std::string length(std::uint64_t n) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(n >> (8 * i));
  return out;
}
std::string file_of(const std::string& header, std::size_t data) {
  return length(header.size()) + header + std::string(data, '\0');
}

class SafetensorsHeader : public ::testing::Test {
 protected:
  // Returns the error about a file of these bytes, without exit code and path.
  std::string says(const std::string& bytes) const {
    const std::string path = folder.write("m.safetensors", bytes);
    const std::string error = error_of([&] { SafetensorsFile file(path); });
    const std::string prefix = "3 " + path + ": ";
    return error.rfind(prefix, 0) == 0 ? error.substr(prefix.size()) : error;
  }
  std::string says(const std::string& header, std::size_t data) const { return says(file_of(header, data)); }
  TempFolder folder;
};

TEST_F(SafetensorsHeader, GoodFiles) {
  EXPECT_EQ(says("{}", 0), "no error");
  EXPECT_EQ(says(" \n{}  \n ", 0), "no error");
  EXPECT_EQ(says(R"({"__metadata__":null})", 0), "no error");
  EXPECT_EQ(says(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4), "no error");
  EXPECT_EQ(says(R"({"a":{"dtype":"F32","shape":[2,0],"data_offsets":[0,0]}})", 0), "no error");
  EXPECT_EQ(
      says(R"({"a":{"x":[{"y":[1]},2],"z":{},"w":-1.5,"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2),
      "no error");
  // The header may list tensors in any order; they come out in the order of their data.
  const SafetensorsFile file(
      folder.write("o.safetensors", file_of(R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[2,14]},
          "__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                                            14)));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.tensors()[1].numel, 6);
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.find("b"), &file.tensors()[1]);
}

TEST_F(SafetensorsHeader, Length) {
  EXPECT_EQ(says(""), "is empty; the header is missing");
  EXPECT_EQ(says("1234567"), "is cut short: 7 bytes, less than the header's length takes");
  EXPECT_EQ(says(length(0)), "header: is empty");
  EXPECT_EQ(says(length(3) + "{}"),
            "header: claims 3 bytes, the file has 2 after its length: it is cut short");
  EXPECT_EQ(says(length(100'000'001) + "{}"),
            "header: claims 100000001 bytes; at most 100000000 are allowed");
  for (const std::uint64_t n : {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7})
    EXPECT_EQ(says(length(n) + "{}"), str("header: claims ", n, " bytes; at most 100000000 are allowed"));
}

TEST_F(SafetensorsHeader, OtherFiles) {
  EXPECT_EQ(says("version https://git-lfs.github.com/spec/v1\noid sha256:abab\nsize 13476838\n"),
            "is a Git LFS pointer, not the weights; fetch them with: git lfs pull");
  EXPECT_EQ(says(std::string("PK\x03\x04") + "0000000000").substr(0, 43),
            "is a PyTorch pickle, which can run code and");
  EXPECT_EQ(says("\x80\x02\x8a\nl\xfc\x9c"
                 "F\xf9 j\xa8P\x19.")
                .substr(0, 20),
            "is a PyTorch pickle,");
  // a length that begins with the same bytes as a pickle
  EXPECT_EQ(says("{}" + std::string(638, ' '), 0), "no error");
  EXPECT_EQ(says("<!DOCTYPE html><html></html>").substr(0, 13), "is a web page");
  EXPECT_EQ(says("GGUF\x03").substr(0, 14), "is a GGUF file");
}

TEST_F(SafetensorsHeader, Json) {
  EXPECT_EQ(says("x{}", 0), "header: does not begin with '{'");
  EXPECT_EQ(says("\xEF\xBB\xBF{}", 0), "header: does not begin with '{'");
  EXPECT_EQ(says("[1,2]", 0), "header: does not begin with '{'");
  EXPECT_EQ(says("   ", 0), "header: is empty");
  EXPECT_EQ(says("{\"a\":}", 0).substr(0, 48), "header:1: not JSON: expected a value at column 6");
  EXPECT_EQ(says("{\"\xff\":1}", 0).substr(0, 61),
            "header:1: not JSON: invalid string: ill-formed UTF-8 byte at ");
  EXPECT_EQ(says("{\"a\":" + std::string(10000, '[') + "}", 0), "header: a must be an object, is an array");
  EXPECT_EQ(says("{\"a\":{\"x\":" + std::string(10000, '[') + "}", 0).substr(0, 32),
            "header:1: nested more than 16 de");
}

TEST_F(SafetensorsHeader, Schema) {
  const auto tensor = [](const char* dtype, const char* shape, const char* offsets) {
    return str("{\"w\":{\"dtype\":", dtype, ",\"shape\":", shape, ",\"data_offsets\":", offsets, "}}");
  };
  EXPECT_EQ(says("{\"w\":1}", 0), "header: w must be an object, is 1");
  EXPECT_EQ(says("{\"w\":{}}", 0), "header: w: has no dtype");
  EXPECT_EQ(says(R"({"w":{"dtype":"U8","shape":[0]}})", 0), "header: w: has no data_offsets");
  EXPECT_EQ(says(R"({"w":{"dtype":"U8","dtype":"U8"}})", 0), "header: w: dtype appears twice");
  EXPECT_EQ(says(tensor("\"F31\"", "[1]", "[0,4]"), 4),
            "header: w: dtype \"F31\" is not one of the format's");
  EXPECT_EQ(says(tensor("7", "[1]", "[0,4]"), 4), "header: w: dtype must be a string, is 7");
  EXPECT_EQ(says(tensor("\"F32\"", "[1.5]", "[0,4]"), 4),
            "header: w: shape must be an array of integers from 0, is 1.5");
  EXPECT_EQ(says(tensor("\"F32\"", "[-1]", "[0,4]"), 4),
            "header: w: shape must be an array of integers from 0, is -1");
  EXPECT_EQ(says(tensor("\"F32\"", "1", "[0,4]"), 4),
            "header: w: shape must be an array of integers from 0, is 1");
  EXPECT_EQ(says(tensor("\"F32\"", "[[1]]", "[0,4]"), 4),
            "header: w: shape must be an array of integers from 0, is an array");
  EXPECT_EQ(says(tensor("\"F32\"", "[\"1\"]", "[0,4]"), 4),
            "header: w: shape must be an array of integers from 0, is \"1\"");
  EXPECT_EQ(says(tensor("\"F32\"", "[18446744073709551615]", "[0,4]"), 4),
            "header: w: shape has the number 18446744073709551615");
  EXPECT_EQ(says(tensor("\"F32\"", "[1]", "[0,4,8]"), 4),
            "header: w: data_offsets has more than two numbers");
  EXPECT_EQ(says(tensor("\"F32\"", "[1]", "[0]"), 4), "header: w: data_offsets must be two numbers");
  EXPECT_EQ(says(tensor("\"F32\"", "[1]", "{}"), 4),
            "header: w: data_offsets must be an array of integers from 0, is an object");
  EXPECT_EQ(says(R"({"__metadata__":{"a":1}})", 0), "header: a in __metadata__ must be a string, is 1");
  EXPECT_EQ(says(R"({"__metadata__":{"a":{}}})", 0),
            "header: a in __metadata__ must be a string, is an object");
  EXPECT_EQ(says(R"({"__metadata__":[]})", 0), "header: __metadata__ must be an object, is an array");
  EXPECT_EQ(says(R"({"__metadata__":{"a":"1","\u0061":"1"}})", 0), "header: __metadata__ a appears twice");
  EXPECT_EQ(says(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},
                     "\u0077":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                 0),
            "header: w appears twice");
  EXPECT_EQ(says(tensor("\"U8\"", ("[" + std::string(200, '1') + "]").c_str(), "[0,1]"), 1).substr(0, 21),
            "header: w: shape must");
  std::string many = "[1";
  for (int i = 0; i < 1000; ++i) many += ",1";
  EXPECT_EQ(says(tensor("\"U8\"", (many + "]").c_str(), "[0,1]"), 1),
            "header: w: shape has more than 64 dimensions");
}

TEST_F(SafetensorsHeader, Layout) {
  const auto two = [](const char* a, const char* b) {
    return str(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)", a,
               R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)", b, "}}");
  };
  const auto one = [](const char* dtype, const char* shape, const char* offsets) {
    return str(R"({"w":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets, "}}");
  };
  EXPECT_EQ(says(two("[0,4]", "[4,8]"), 8), "no error");
  EXPECT_EQ(says(two("[0,4]", "[5,9]"), 9), "b: data_offsets [5, 9] leave a hole after byte 4");
  EXPECT_EQ(says(two("[0,4]", "[3,7]"), 7), "b: data_offsets [3, 7] overlap the tensor that ends at byte 4");
  EXPECT_EQ(says(two("[0,4]", "[0,4]"), 4), "b: data_offsets [0, 4] overlap the tensor that ends at byte 4");
  EXPECT_EQ(says(two("[1,5]", "[5,9]"), 9), "a: data_offsets [1, 5] leave a hole after byte 0");
  EXPECT_EQ(says(two("[0,4]", "[8,4]"), 8), "b: data_offsets [8, 4] end before they begin");
  EXPECT_EQ(says(two("[0,4]", "[4,8]"), 7),
            "b: data_offsets [4, 8] lie beyond the end; the file has 7 bytes of data: it is cut short");
  EXPECT_EQ(says(two("[0,4]", "[4,8]"), 9), "has 9 bytes of data, its tensors take 8: 1 bytes too many");
  EXPECT_EQ(says(one("F32", "[3]", "[0,8]"), 8),
            "w: data_offsets [0, 8] are 8 bytes, shape [3] of F32 is 12");
  EXPECT_EQ(says(one("F4", "[3]", "[0,2]"), 2), "w: 3 elements of F4 do not fill whole bytes");
  EXPECT_EQ(says(one("F32", "[2,9223372036854775807]", "[0,8]"), 8),
            "w: shape [2, 9223372036854775807] has more elements than can be counted");
  EXPECT_EQ(says(one("F32", "[4,1073741824,1073741824]", "[0,8]"), 8),
            "w: shape [4, 1073741824, 1073741824] has more bytes than can be counted");
  EXPECT_EQ(says(one("F32", "[1099511627776]", "[0,8]"), 8),
            "w: data_offsets [0, 8] are 8 bytes, shape [1099511627776] of F32 is 4398046511104");
}

TEST_F(SafetensorsHeader, NamesAreSafeToPrint) {
  const std::string error = says(R"({"\u001b[2J":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2);
  EXPECT_EQ(error, "\\x1b[2J: data_offsets [1, 2] leave a hole after byte 0");
}

// Every truncated file is refused.
TEST_F(SafetensorsHeader, EveryCut) {
  const std::string whole = file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                  "b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]}})",
                                    20);
  EXPECT_EQ(says(whole), "no error");
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NE(says(whole.substr(0, n)), "no error") << n;
}

// Any bytes give a file or a UserError, and an accepted file can be read.
TEST_F(SafetensorsHeader, RandomDamageNeverCrashes) {
  const std::string good =
      file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
              R"("b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]}}  )",
              20);
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = good;
    for (auto n = random() % 3 + 1; n > 0 && !bytes.empty(); --n) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>('0' + random() % 10);
          break;
        case 2:
          bytes.erase(at, random() % 5);
          break;
        default:
          bytes.insert(at, good.substr(random() % good.size(), random() % 9));
      }
    }
    const std::string path = folder.write("d.safetensors", bytes);
    try {
      const SafetensorsFile file(path);
      for (const auto& t : file.tensors()) {
        ASSERT_LE(t.end, file.size());
        if (!dtype_of(t.type)) continue;
        std::vector<std::byte> to(static_cast<std::size_t>(t.end - t.begin) + 1);
        file.read(t, {to.data(), *dtype_of(t.type), {t.numel}}, 0, Nonfinite::allow);
      }
    } catch (const UserError& e) {
      ASSERT_EQ(e.code, Exit::input);
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

// ---- data ----

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class SafetensorsData : public ::testing::Test {
 protected:
  SafetensorsFile one(const char* dtype, const std::string& shape, const std::string& data) const {
    const std::string header = str(R"({"w":{"dtype":")", dtype, R"(","shape":)", shape,
                                   R"(,"data_offsets":[0,)", data.size(), "]}}");
    return SafetensorsFile(folder.write("w.safetensors", length(header.size()) + header + data));
  }
  TempFolder folder;
};

TEST_F(SafetensorsData, EveryConversionEqualsTheScalarOne) {
  std::vector<std::uint16_t> all(65536);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> f32(65536), expected(65536);
  for (const DType from : {DType::bf16, DType::f16}) {
    convert(f32.data(), DType::f32, all.data(), from, 65536);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const float want = from == DType::bf16 ? to_float(bf16{all[i]}) : to_float(f16{all[i]});
      ASSERT_EQ(std::bit_cast<std::uint32_t>(f32[i]), std::bit_cast<std::uint32_t>(want)) << i;
    }
  }
  std::mt19937 random(5);
  for (auto& v : f32) {
    const auto bits = random() % 4 ? 0x33000000u + random() % 0x15000000u : random();
    v = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  }
  std::vector<std::uint16_t> out(65536);
  for (const DType to : {DType::bf16, DType::f16}) {
    convert(out.data(), to, f32.data(), DType::f32, 65536);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      bf16 b;
      f16 h;
      from_float(b, f32[i]);
      from_float(h, f32[i]);
      ASSERT_EQ(out[i], to == DType::bf16 ? b.bits : h.bits) << f32[i];
    }
  }
  convert(out.data(), DType::bf16, all.data(), DType::f16, 65536);
  bf16 b;
  from_float(b, to_float(f16{0x3c01}));
  EXPECT_EQ(out[0x3c01], b.bits);
}

TEST_F(SafetensorsData, ReadsRangesAndStridedRows) {
  std::vector<float> values(60);
  for (std::size_t i = 0; i < 60; ++i) values[i] = static_cast<float>(i);
  const auto file = one("F32", "[6, 10]", bytes_of(values));
  const auto& w = *file.find("w");
  std::vector<bf16> narrow(20);
  file.read(w, {reinterpret_cast<std::byte*>(narrow.data()), DType::bf16, {2, 10}}, 25);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(to_float(narrow[i]), static_cast<float>(25 + i));

  std::vector<float> padded(6 * 12, -1.0f);  // rows of 10 elements, with a stride of 12
  file.read(w, {reinterpret_cast<std::byte*>(padded.data()), DType::f32, {6, 10}, 12});
  for (std::size_t r = 0; r < 6; ++r) {
    for (std::size_t c = 0; c < 10; ++c) EXPECT_EQ(padded[r * 12 + c], values[r * 10 + c]);
    EXPECT_EQ(padded[r * 12 + 10], -1.0f);
    EXPECT_EQ(padded[r * 12 + 11], -1.0f);
  }
  EXPECT_THROW(file.read(w, {reinterpret_cast<std::byte*>(padded.data()), DType::f32, {11}}, 50),
               InternalError);
}

TEST_F(SafetensorsData, LargeTensorsInSeveralThreads) {
  const std::int64_t rows = 2311, cols = 2003;  // more than one thread's part, and odd sizes
  std::vector<bf16> values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<std::uint16_t>(i * 7 % 0x7f00);
  const auto file = one("BF16", str("[", rows, ",", cols, "]"), bytes_of(values));
  std::vector<float> padded(static_cast<std::size_t>(rows * (cols + 5)), -1.0f);
  file.read(*file.find("w"),
            {reinterpret_cast<std::byte*>(padded.data()), DType::f32, {rows, cols}, cols + 5});
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols + 5; ++c) {
      const float is = padded[static_cast<std::size_t>(r * (cols + 5) + c)];
      ASSERT_EQ(is, c < cols ? to_float(values[static_cast<std::size_t>(r * cols + c)]) : -1.0f);
    }
  std::vector<bf16> same(values.size());
  file.read(*file.find("w"), {reinterpret_cast<std::byte*>(same.data()), DType::bf16, {rows * cols}});
  EXPECT_EQ(std::memcmp(same.data(), values.data(), values.size() * 2), 0);
}

TEST_F(SafetensorsData, NonFiniteIsRefusedWithItsPlace) {
  std::vector<float> values(12, 1.0f);
  values[7] = std::nanf("");
  const auto file = one("F32", "[3, 4]", bytes_of(values));
  const auto& w = *file.find("w");
  std::vector<float> to(12);
  const Tensor whole{reinterpret_cast<std::byte*>(to.data()), DType::f32, {3, 4}};
  const std::string where = "3 " + folder / "w.safetensors" + ": w ";
  EXPECT_EQ(error_of([&] { file.read(w, whole); }), where + "has a NaN or Inf at [1, 3]");
  file.read(w, whole, 0, Nonfinite::allow);
  EXPECT_TRUE(std::isnan(to[7]));
  values[7] = -INFINITY;
  const auto infinite = one("F32", "[3, 4]", bytes_of(values));
  std::vector<bf16> narrow(12);
  EXPECT_EQ(
      error_of([&] {
        infinite.read(*infinite.find("w"), {reinterpret_cast<std::byte*>(narrow.data()), DType::bf16, {12}});
      }),
      where + "has a NaN or Inf at [1, 3]");
  values[7] = 70000.0f;
  const auto large = one("F32", "[3, 4]", bytes_of(values));
  std::vector<f16> half(12);
  EXPECT_EQ(error_of([&] {
              large.read(*large.find("w"), {reinterpret_cast<std::byte*>(half.data()), DType::f16, {12}});
            }),
            where + "has a number too large for its type at [1, 3]");
}

TEST_F(SafetensorsData, NonFiniteIsFoundAnywhere) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t at : {0, 1, 4095, 4096, 9999}) {
      std::vector<float> values(10000, 1.0f);
      std::vector<std::byte> stored(40000);
      convert(stored.data(), type, values.data(), DType::f32, 10000);
      EXPECT_EQ(find_nonfinite(stored.data(), type, 10000), -1);
      values[static_cast<std::size_t>(at)] = at % 2 ? INFINITY : std::nanf("");
      convert(stored.data(), type, values.data(), DType::f32, 10000);
      EXPECT_EQ(find_nonfinite(stored.data(), type, 10000), at);
    }
}

TEST_F(SafetensorsData, OtherTypes) {
  const auto file = one("I64", "[2]", std::string(16, '\1'));
  std::vector<float> to(2);
  EXPECT_EQ(error_of([&] {
              file.read(*file.find("w"), {reinterpret_cast<std::byte*>(to.data()), DType::f32, {2}});
            }),
            "3 " + folder / "w.safetensors" + ": w is I64; ft reads F32, F16 and BF16 there");
  const auto bytes = one("U8", "[3]", "abc");
  std::string out(3, ' ');
  bytes.read(*bytes.find("w"), {reinterpret_cast<std::byte*>(out.data()), DType::u8, {3}});
  EXPECT_EQ(out, "abc");
  EXPECT_EQ(error_of([&] {
              const auto half = one("F32", "[1]", "abcd");
              half.read(*half.find("w"), {reinterpret_cast<std::byte*>(out.data()), DType::u8, {1}});
            }),
            "3 " + folder / "w.safetensors" + ": w is F32; ft reads U8 there");
}

TEST_F(SafetensorsData, AFileThatShrinksIsAnError) {
  const auto file = one("F32", "[4]", std::string(16, '\0'));
  std::filesystem::resize_file(folder / "w.safetensors", static_cast<std::uintmax_t>(file.size() - 8));
  std::vector<float> to(4);
  EXPECT_NE(error_of([&] {
              file.read(*file.find("w"), {reinterpret_cast<std::byte*>(to.data()), DType::f32, {4}});
            }).find("it shrank while it was being read"),
            std::string::npos);
}

}  // namespace
}  // namespace ft
