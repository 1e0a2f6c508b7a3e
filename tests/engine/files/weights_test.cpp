// Model folders: one file or an index, and all errors of an index.
#include "engine/files/safetensors/weights.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::error_of;
using test::TempFolder;

// Returns a file with one F32 tensor of two elements for each name, all 1.
std::string shard(const std::vector<std::string>& names) {
  std::string header = "{", data;
  for (const auto& name : names) {
    header +=
        str(header.size() > 1 ? "," : "", "\"", name, R"(":{"dtype":"F32","shape":[1,2],"data_offsets":[)",
            data.size(), ",", data.size() + 8, "]}");
    data += std::string("\0\0\x80\x3f\0\0\x80\x3f", 8);
  }
  header += "}";
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 2; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + data;
}

class ModelFolderTest : public ::testing::Test {
 protected:
  std::string says(const std::string& text) {
    folder.write("model.safetensors.index.json", text);
    return error_of([&] { ModelFolder model(folder.path()); });
  }
  TempFolder folder;
  const std::string index = folder / "model.safetensors.index.json";
};

TEST_F(ModelFolderTest, OneFile) {
  folder.write("model.safetensors", shard({"b", "a"}));
  const ModelFolder model(folder.path());
  EXPECT_EQ(model.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(model.bytes(), 16);
  EXPECT_TRUE(model.has("a"));
  EXPECT_FALSE(model.has("c"));
  std::vector<float> to(2);
  model.read("a", {reinterpret_cast<std::byte*>(to.data()), DType::f32, {2}});
  EXPECT_EQ(to[1], 1.0f);
  EXPECT_NO_THROW(model.expect("a", {1, 2}));
  const std::string file = "3 " + folder / "model.safetensors";
  EXPECT_EQ(error_of([&] {
              model.expect("a", {2, 1});
            }),
            file + ": a is [1, 2], config.json asks for [2, 1]");
  EXPECT_EQ(error_of([&] { model.expect("a", {1}); }), file + ": a is [1, 2], config.json asks for [1]");
  EXPECT_EQ(error_of([&] { model.info("c"); }), file + ": has no c, which config.json asks for");
}

TEST_F(ModelFolderTest, Sharded) {
  folder.write("m-1.safetensors", shard({"a"}));
  folder.write("m-2.safetensors", shard({"b", "c"}));
  EXPECT_EQ(says(R"({"metadata": {"total_size": 1}, "weight_map":
                     {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-2.safetensors"}})"),
            "no error");
  const ModelFolder model(folder.path());
  EXPECT_EQ(model.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(model.files().size(), 2u);
  EXPECT_EQ(model.info("c").file, folder / "m-2.safetensors");
  EXPECT_EQ(error_of([&] { model.info("d"); }),
            "3 " + folder.path() + ": has no d, which config.json asks for");
}

// Stacked matrices of experts: (2, 2, 1), gate above up.
TEST_F(ModelFolderTest, StacksAreSplitIntoExperts) {
  const std::string header = R"({"m.0.gu":{"dtype":"F32","shape":[2,2,1],"data_offsets":[0,16]}})";
  std::string length(8, '\0'), data;
  length[0] = static_cast<char>(header.size());
  for (const char c : {'\x80', '\xa0', '\xc0', '\xe0'})
    data += std::string("\0\0", 2) + c + '\x3f';  // 1 to 1.75
  folder.write("model.safetensors", length + header + data);
  ModelFolder model(folder.path());
  model.name_as({.prefix = "m.", .stacks = {{".gu", {".%.gate", ".%.up"}}}});
  EXPECT_EQ(model.names(), (std::vector<std::string>{"m.0.0.gate", "m.0.0.up", "m.0.1.gate", "m.0.1.up"}));
  EXPECT_EQ(model.bytes(), 16);
  model.expect("m.0.1.gate", {1, 1});
  float value = 0;
  model.read("m.0.1.gate", {reinterpret_cast<std::byte*>(&value), DType::f32, {1}});
  EXPECT_EQ(value, 1.5f);
  ModelFolder odd(folder.path());
  EXPECT_EQ(error_of([&] {
              odd.name_as({.prefix = "m.", .stacks = {{".gu", {".%.a", ".%.b", ".%.c"}}}});
            }),
            "3 " + folder / "model.safetensors: m.0.gu is [2, 2, 1], not a matrix for each expert");
}

TEST_F(ModelFolderTest, WrongIndex) {
  folder.write("m-1.safetensors", shard({"a"}));
  folder.write("m.bin", "x");
  EXPECT_EQ(says("{}"), "3 " + index + ": has no weight_map; it must be an object");
  EXPECT_EQ(says(R"({"weight_map": []})"), "3 " + index + ": weight_map must be an object, is []");
  EXPECT_EQ(
      says(R"({"weight_map": {}})"),
      "3 " + index + ": weight_map must be an object of names and files, not empty, is an object of 0 keys");
  EXPECT_EQ(says(R"({"weight_map": {"a": 5}})"),
            "3 " + index + ": weight_map.a must be the name of a file, is 5");
  EXPECT_EQ(says(R"({"weight_map": {"a": "m.bin"}})"),
            "3 " + index + ": weight_map.a must be the name of a .safetensors file, is \"m.bin\"");
  for (const char* bad : {"/m-1.safetensors", "../m-1.safetensors", "x/../m-1.safetensors", ""})
    EXPECT_EQ(says(str(R"({"weight_map": {"a": ")", bad, "\"}}"))
                  .substr(0, index.size() + 21 + std::string(bad).size()),
              "3 " + index + ": names the file \"" + bad + "\"")
        << bad;
  EXPECT_EQ(says(R"({"weight_map": {"a": "m-1.safetensors", "b": "m-1.safetensors"}})"),
            "3 " + folder / "m-1.safetensors: has no b, which " + index + " says it has");
  EXPECT_EQ(says(R"({"weight_map": {"a": "m-3.safetensors"}})"),
            "3 " + folder / "m-3.safetensors: cannot be read: No such file or directory");
  EXPECT_EQ(says(R"({"weight_map": {"a": "m-1.safetensors", "a": "m-1.safetensors"}})").substr(0, 60),
            ("3 " + index + ":1: the key \"a\" appears twice").substr(0, 60));
  EXPECT_EQ(says("nonsense").substr(0, index.size() + 15), "3 " + index + ":1: not JSON:");
}

TEST_F(ModelFolderTest, NoWeights) {
  EXPECT_EQ(error_of([&] { ModelFolder model(folder.path()); }),
            "3 " + folder.path() + ": has no model.safetensors");
  folder.write("pytorch_model.bin", "PK");
  EXPECT_EQ(error_of([&] { ModelFolder model(folder.path()); }),
            "3 " + folder.path() +
                ": has no model.safetensors, only pytorch_model.bin; a pickle can run code and is not read. "
                "Convert it once, where transformers is installed:\n"
                "  AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)");
  EXPECT_EQ(error_of([&] { ModelFolder model(folder / "none"); }),
            "3 " + folder / "none: there is no such model folder");
  EXPECT_EQ(error_of([&] { ModelFolder model(folder / "pytorch_model.bin"); }),
            "3 " + folder / "pytorch_model.bin: is not a model folder");
  const TempFolder adapter;
  adapter.write("adapter_model.safetensors", shard({"a"}));
  EXPECT_EQ(error_of([&] { ModelFolder model(adapter.path()); }),
            "3 " + adapter.path() + ": has no model.safetensors; it is an adapter, not a model");
}

TEST_F(ModelFolderTest, LinksAreFollowedAndPipesRefused) {
  const TempFolder disk;
  disk.write("w", shard({"a"}));
  ASSERT_EQ(::symlink((disk / "w").c_str(), (folder / "model.safetensors").c_str()), 0);
  EXPECT_TRUE(ModelFolder(folder.path()).has("a"));
  std::filesystem::remove(folder / "model.safetensors");
  ASSERT_EQ(::mkfifo((folder / "model.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { ModelFolder model(folder.path()); }),
            "3 " + folder / "model.safetensors: is a pipe, not a regular file");
}

TEST_F(ModelFolderTest, IntegersAreNoWeights) {
  const std::string header = R"({"w":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})";
  folder.write("model.safetensors", std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                                        header + std::string(8, '\0'));
  const ModelFolder model(folder.path());
  EXPECT_EQ(error_of([&] { model.expect("w", {1}); }),
            "3 " + folder / "model.safetensors: w is I64; ft reads F32, F16 and BF16");
}

}  // namespace
}  // namespace ft
