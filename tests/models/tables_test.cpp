// Embedding and head share a table if config.json says so, unless the files contain two that differ.
#include "models/tables.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "models/registry.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::TempFolder;

// Returns the config.json of a tied model in a folder with these tables.
std::string folder_of(const TempFolder& temp, const std::string& golden, const std::string& embedding,
                      std::vector<float> table, std::vector<float> head, DType head_type = DType::f32) {
  Json config = read_json(source_path("tests/golden/models/" + golden + "/model/config.json"));
  config["tie_word_embeddings"] = true;
  std::vector<TensorSpec> specs{{embedding, DType::f32, {std::ssize(table)}}};
  if (!head.empty()) specs.push_back({"lm_head.weight", head_type, {std::ssize(head)}});
  write_shards(temp.path(), "model", specs, [&](const TensorSpec& s) {
    auto& values = s.name == embedding ? table : head;
    return Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {std::ssize(values)});
  });
  return temp.write("config.json", json_text(config));
}

struct Made {
  bool tied, two_tables, has_head;
  std::string head_in_files;
};
Made made(const std::string& config) {
  const MadeModel m = make_model(config, DType::f32);
  Made out{m.info.tied_head, m.info.two_tables, false, ""};
  EachParameter each([&](Parameter& p) {
    if (p.name != m.info.head_weight()) return;
    out.has_head = true;
    out.head_in_files = p.stored_name();
  });
  m.model->visit(each);
  return out;
}

TEST(Tables, TwoThatDifferAreTwo) {
  for (const auto& [golden, embedding] :
       {std::pair<std::string, std::string>{"qwen3", "model.embed_tokens.weight"},
        {"gpt2", "transformer.wte.weight"},
        {"gpt2", "wte.weight"},
        {"gemma3", "model.embed_tokens.weight"}}) {
    const TempFolder temp;
    const Made m = made(folder_of(temp, golden, embedding, {1, 2, 3}, {1, 2, 4}));
    EXPECT_FALSE(m.tied) << golden;
    EXPECT_TRUE(m.two_tables && m.has_head) << golden;
    EXPECT_EQ(m.head_in_files, "lm_head.weight");
  }
}

TEST(Tables, EqualOrMissingOnesAreOne) {
  for (const std::vector<float>& head : {std::vector<float>{1, 2, 3}, std::vector<float>{}}) {
    const TempFolder temp;
    const Made m = made(folder_of(temp, "qwen3", "model.embed_tokens.weight", {1, 2, 3}, head, DType::bf16));
    EXPECT_TRUE(m.tied && !m.two_tables && !m.has_head);
  }
  const TempFolder temp;
  const std::string config = folder_of(temp, "qwen3", "model.embed_tokens.weight", {1, 2}, {1, 2, 3});
  EXPECT_TRUE(made(config).two_tables);
  EXPECT_EQ(weights_beside(source_path("tests/golden/cases.json")), nullptr);
}

}  // namespace
}  // namespace ft
