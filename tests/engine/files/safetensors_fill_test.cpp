// A file that several writers fill in equals the file of one writer.
#include "engine/files/safetensors/safetensors_fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/files/safetensors/safetensors_write.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::error_of;
using test::slurp;
using test::TempFolder;

struct Model {
  std::vector<TensorSpec> specs{
      {"b", DType::bf16, {7, 11}}, {"a", DType::f32, {1'200'001}}, {"c", DType::f32, {3}}};
  std::vector<float> values = std::vector<float>(1'200'001);
  Model() { std::iota(values.begin(), values.end(), -3.3f); }
  Tensor operator()(const TensorSpec& t) {
    return {reinterpret_cast<std::byte*>(values.data()), DType::f32, t.shape};
  }
};

TEST(SafetensorsFiller, MakesTheSameFiles) {
  Model model;
  const TempFolder at_once, in_parts;
  write_shards(at_once.path(), "model", model.specs, std::ref(model), 1000);
  const WrittenFiles made = write_shards(in_parts.path(), "model", model.specs, {}, 1000);
  ASSERT_EQ(made.names.size(), 3u);
  {
    SafetensorsFiller one(in_parts.path()), other(in_parts.path());
    for (const TensorSpec& t : model.specs) {
      const std::int64_t n = t.shape.numel(), half = n / 3;
      const Tensor all = model({"", DType::f32, {n}});
      other.write(t.name, half, all.elements(half, n - half));
      one.write(t.name, 0, all.elements(0, half));
    }
    one.sync();
    other.sync();
  }
  for (const std::string& name : made.names)
    EXPECT_TRUE(slurp(in_parts / name) == slurp(at_once / name)) << name;
}

// The folder was just made, so a link in its place is somebody else's.
TEST(SafetensorsFiller, FollowsNoLink) {
  Model model;
  const TempFolder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  write_shards(folder / "elsewhere", "model", model.specs, {});
  std::filesystem::create_symlink("elsewhere", folder / "staged");
  const std::string end = ": is a symbolic link; ft writes through no link in an output folder; remove it";
  for (const char* slash : {"", "/"})
    EXPECT_EQ(error_of([&] { SafetensorsFiller(folder / "staged" + slash); }),
              "6 " + folder / "staged" + end);
  std::filesystem::create_directory(folder / "other");
  std::filesystem::create_symlink("../elsewhere/model.safetensors", folder / "other/model.safetensors");
  EXPECT_EQ(error_of([&] { SafetensorsFiller(folder / "other"); }),
            "6 " + folder / "other/model.safetensors" + end);
}

TEST(SafetensorsFiller, RefusesNan) {
  const TempFolder folder;
  Model model;
  write_shards(folder.path(), "model", model.specs, {});
  SafetensorsFiller filler(folder.path());
  std::vector<float> numbers{1, NAN};
  const Tensor bad(reinterpret_cast<std::byte*>(numbers.data()), DType::f32, {2});
  EXPECT_EQ(error_of([&] { filler.write("c", 0, bad); }),
            "7 " + (folder / "model.safetensors") + ": not written: c has a NaN or Inf as float32");
  EXPECT_THROW(filler.write("c", 2, bad), InternalError);
  EXPECT_THROW(filler.write("d", 0, bad), InternalError);
  EXPECT_THROW(filler.write("a", 0, {bad.data, DType::u8, {8}}), InternalError);
}

}  // namespace
}  // namespace ft
