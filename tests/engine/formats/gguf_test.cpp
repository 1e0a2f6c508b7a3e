// Writing and reading GGUF, and damaged files.
#include "engine/formats/gguf/gguf.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

class Gguf : public testing::Test {
 protected:
  std::vector<float> values(std::int64_t n) const {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::sin(static_cast<float>(i + 1)) * 2;
    return v;
  }
  void write(const GgufKeys& keys, const std::vector<GgufTensor>& tensors) {
    std::vector<float> v;
    write_gguf(path, keys, tensors, [&](const GgufTensor& t) {
      v = values(t.elements());
      return Tensor(reinterpret_cast<std::byte*>(v.data()), DType::f32, {t.elements()});
    });
  }
  std::string bytes() const { return read_file(path, 1 << 20); }
  std::string error() {
    try {
      GgufFile file(path);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::input);
      return std::string(e.what()).substr((path + ": not a valid GGUF file: ").size());
    }
    return "no error";
  }
  // Returns the error about the file with `with` at position `at`.
  std::string damaged(std::size_t at, const std::string& with) {
    std::string b = bytes();
    b.replace(at, with.size(), with);
    folder.write("model.gguf", b);
    const std::string said = error();
    write(keys_, tensors_);
    return said;
  }

  test::TempFolder folder;
  std::string path = folder / "model.gguf";
  GgufKeys keys_{{"general.alignment", std::uint32_t{32}}, {"a.text", std::string("word")}};
  std::vector<GgufTensor> tensors_{{"one", GgmlType::f32, {2, 3}}, {"two", GgmlType::bf16, {5}}};
};

TEST_F(Gguf, KeysAndTensorsComeBack) {
  const GgufKeys keys{{"a.u32", std::uint32_t{7}},
                      {"a.i32", std::int32_t{-7}},
                      {"a.u64", std::uint64_t{1} << 40},
                      {"a.f32", 0.5f},
                      {"a.flag", true},
                      {"a.text", std::string("w\xC3\xB6rd")},
                      {"a.texts", std::vector<std::string>{"", "b", "cc"}},
                      {"a.bytes", std::vector<std::uint8_t>{0, 127, 255}},
                      {"a.floats", std::vector<float>{1, -2}},
                      {"a.ints", std::vector<std::int32_t>{1, -2, 3}}};
  const std::vector<GgufTensor> tensors{{"vector", GgmlType::f32, {5}},
                                        {"half", GgmlType::f16, {3, 7}},
                                        {"brain", GgmlType::bf16, {2, 3, 4}},
                                        {"blocks", GgmlType::q8_0, {3, 64}}};
  write(keys, tensors);
  const GgufFile file(path);
  EXPECT_TRUE(file.keys() == keys);
  EXPECT_EQ(file.find("b"), nullptr);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const GgufTensor& t = file.tensors()[i];
    EXPECT_EQ(t.name, tensors[i].name);
    EXPECT_EQ(t.type, tensors[i].type);
    EXPECT_EQ(t.shape, tensors[i].shape);
    EXPECT_EQ(t.begin % 32, 0);
    const std::vector<float> got = file.read(t), want = values(t.elements());
    const float bound = t.type == GgmlType::f32 ? 0 : t.type == GgmlType::f16 ? 1e-3f : 1e-2f;
    for (std::size_t j = 0; j < want.size(); ++j) EXPECT_NEAR(got[j], want[j], bound) << t.name << " " << j;
  }
}

// A split model: the first file has the keys, and each file may have tensors.
class GgufSplit : public Gguf {
 protected:
  GgufSplit() {
    part(1, {{"split.no", std::uint32_t{0}}, {"a.text", std::string("word")}},
         {"one", GgmlType::f32, {2, 3}});
    part(2, {{"split.no", std::uint32_t{1}}}, {"two", GgmlType::q8_0, {1, 32}});
  }
  std::string name(int number) const { return folder / str("m-0000", number, "-of-00002.gguf"); }
  void part(int number, GgufKeys keys, const GgufTensor& tensor) {
    keys.emplace_back("split.count", std::uint32_t{2});
    path = name(number);
    write(keys, {tensor});
    path = name(1);
  }
  std::string refused() {
    try {
      GgufFile file(path);
    } catch (const UserError& e) {
      return std::string(e.what()).substr(path.size());
    }
    return "not refused";
  }
};

TEST_F(GgufSplit, IsReadAsOneFile) {
  const GgufFile file(path);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.read(file.tensors()[0]), values(6));
  const std::vector<float> got = file.read(file.tensors()[1]), want = values(32);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 0.02f);
  EXPECT_NE(file.find("a.text"), nullptr);
}

TEST_F(GgufSplit, WrongPartsAreRefused) {
  part(2, {{"split.no", std::uint32_t{1}}}, {"one", GgmlType::f32, {2, 3}});
  EXPECT_EQ(refused(), ": one is in two of its files");
  part(2, {{"split.no", std::uint32_t{0}}}, {"two", GgmlType::f32, {2, 3}});
  EXPECT_EQ(refused(), ": " + name(2) + " is not a part of the same model");
  path = name(2);
  part(2, {{"split.no", std::uint32_t{1}}}, {"two", GgmlType::f32, {2, 3}});
  path = name(2);
  EXPECT_EQ(
      refused(),
      ": it is one of the 2 files of a split model; name the first, which ends with -00001-of-00002.gguf");
}

TEST_F(Gguf, RefusesToWriteNan) {
  const auto write_nan = [&] {
    float v = NAN;
    write_gguf(path, {}, {{"x", GgmlType::f32, {1}}},
               [&](const GgufTensor&) { return Tensor(reinterpret_cast<std::byte*>(&v), DType::f32, {1}); });
  };
  EXPECT_THROW(write_nan(), UserError);
  EXPECT_EQ(folder.entries(), 0u);
}

TEST_F(Gguf, RefusesDamagedFiles) {
  write(keys_, tensors_);
  EXPECT_EQ(error(), "no error");
  EXPECT_EQ(damaged(0, "X"), "it does not begin with GGUF");
  EXPECT_EQ(damaged(4, "\x09"), "version 9; ft reads 2 and 3");
  const std::string many(8, '\xff');
  EXPECT_EQ(damaged(8, many), "more tensors than the file has room for");
  EXPECT_EQ(damaged(16, many), "more keys than the file has room for");
  EXPECT_EQ(damaged(24, many), "a string is longer than the file");
  EXPECT_EQ(damaged(24 + 8 + 17, std::string("\x63")), "a value of an unknown type");
  EXPECT_EQ(damaged(24 + 8 + 17 + 4, std::string("\x21")), "general.alignment is not a power of two");
  const std::size_t first = bytes().find("one"), second = bytes().find("two");
  EXPECT_EQ(damaged(first + 3, std::string("\x09")), "one has more than four dimensions");
  EXPECT_EQ(damaged(first + 7, many), "one is too large");
  EXPECT_EQ(
      damaged(first + 7 + 16, std::string("\x0f")),
      "one is of type 15; ft reads F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, IQ4_XS, Q2_K, "
      "Q3_K, Q4_K, Q5_K, Q6_K, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, TQ1_0, TQ2_0 and MXFP4");
  EXPECT_EQ(damaged(first + 7 + 16, std::string("\x08")), "one is Q8_0 and its rows are not blocks of 32");
  EXPECT_EQ(damaged(second, "one"), "one appears twice");
  EXPECT_EQ(damaged(second + 7 + 8 + 4, std::string("\x40")), "two does not follow the tensor before it");
  const std::string whole = bytes();
  for (const std::size_t size : {std::size_t{4}, std::size_t{20}, std::size_t{40}, first + 5}) {
    folder.write("model.gguf", whole.substr(0, size));
    EXPECT_NE(error(), "no error") << size;
  }
  folder.write("model.gguf", whole.substr(0, whole.size() - 32));
  EXPECT_EQ(error(), "it ends before the data of two");
}

TEST_F(Gguf, EveryByteOfTheHeaderMayBeWrong) {
  write(keys_, tensors_);
  const std::string whole = bytes();
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const char c : {'\0', '\x7f', '\xff'}) {
      std::string b = whole;
      b[i] = c;
      folder.write("model.gguf", b);
      try {
        const GgufFile file(path);
        for (const GgufTensor& t : file.tensors()) file.read(t);
      } catch (const UserError&) {
      }
    }
}

}  // namespace
}  // namespace ft
