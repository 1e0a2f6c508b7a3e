// ft export --to gguf of mixtures of experts: all experts of a layer in one tensor, in their order.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/files/json.h"
#include "engine/files/safetensors/weights.h"
#include "engine/formats/gguf/gguf.h"
#include "models/registry.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

class GgufMixtures : public testing::Test {
 protected:
  // Makes a model of random weights with the shape of a golden model, but with experts in every layer.
  std::string made(const std::string& golden, const Json& change) {
    Json config = read_json(source_path("tests/golden/models/" + golden + "/model/config.json"));
    config.update(
        {{"mlp_only_layers", Json::array()}, {"decoder_sparse_step", 1}, {"attention_bias", false}});
    if (golden == "olmoe") config["num_key_value_heads"] = config["num_attention_heads"];
    config.update(change);
    folder.write("config.json", config.dump());
    const std::string to = folder / golden;
    EXPECT_EQ(run({"init", "--config", folder / "config.json", "--output", to}).code, 0) << golden;
    return to;
  }
  Outcome exported(const std::string& from) {
    return run(
        {"export", "--to", "gguf", "--from", from, "--output", file, "--dtype", "float32", "--overwrite"});
  }
  static std::vector<float> stored(const ModelFolder& model, const std::string& name) {
    std::int64_t n = 1;
    for (const auto d : model.info(name).shape) n *= d;
    std::vector<float> values(static_cast<std::size_t>(n));
    model.read(name, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {n}));
    return values;
  }
  test::TempFolder folder;
  std::string file = folder / "out.gguf";
};

TEST_F(GgufMixtures, ComeBack) {
  for (const std::string golden : {"mixtral", "qwen2-moe", "qwen3-moe", "olmoe"}) {
    const int experts = 12;  // by name, expert 10 comes before expert 2
    const std::string from =
        made(golden,
             {{golden == "mixtral" || golden == "qwen3-moe" ? "num_local_experts" : "num_experts", experts}});
    ASSERT_EQ(exported(from).code, 0) << golden;
    const GgufModel described = make_gguf_model(from + "/config.json");
    const ModelFolder model(from);
    const GgufFile gguf(file);
    std::map<std::string, const GgufTensor*> there;
    for (const GgufTensor& t : gguf.tensors()) there[t.name] = &t;
    std::set<std::string> found;
    for (const std::string& weight : model.names()) {
      const auto name = described.name_of(weight);
      ASSERT_TRUE(name && there.contains(*name)) << weight;
      found.insert(*name);
      const GgufTensor& t = *there[*name];
      std::vector<float> want = stored(model, weight), got = gguf.read(t);
      std::vector<std::int64_t> shape = model.info(weight).shape;
      described.reorder(weight, want.data(), shape[0], std::ssize(want) / shape[0]);
      if (const auto at = weight.find(".experts."); at != weight.npos) {
        shape.insert(shape.begin(), experts);
        const auto first = std::ssize(want) * std::stoi(weight.substr(at + 9));
        ASSERT_EQ(std::ssize(got), experts * std::ssize(want));
        got = {got.begin() + first, got.begin() + first + std::ssize(want)};
      }
      if (name->ends_with("ffn_gate_inp_shexp.weight")) shape.erase(shape.begin());
      EXPECT_EQ(t.shape, shape) << weight;
      EXPECT_EQ(got, want) << weight;
    }
    EXPECT_EQ(found.size(), there.size());
    const std::string& architecture = described.architecture;
    EXPECT_EQ(std::get<std::uint32_t>(*gguf.find(architecture + ".expert_count")), 12u);
    EXPECT_EQ(std::get<std::uint32_t>(*gguf.find(architecture + ".expert_used_count")),
              golden == "qwen3-moe" ? 3u : 2u);
  }
}

// Properties that GGUF's readers assume of every model of these families.
TEST_F(GgufMixtures, UnsupportedModelsAreRefused) {
  const auto said = [&](const std::string& golden, const Json& change) {
    const std::string from = made(golden, change);
    const Outcome o = exported(from);
    std::filesystem::remove_all(from);
    EXPECT_EQ(o.code, 3);
    EXPECT_FALSE(path_exists(file));
    return o.err.substr(o.err.find("config.json: ") + 13);
  };
  EXPECT_EQ(said("qwen2-moe", {{"mlp_only_layers", {1}}}),
            "mlp_only_layers, decoder_sparse_step: GGUF's qwen2_moe models have experts in every layer\n");
  EXPECT_EQ(said("qwen3-moe", {{"norm_topk_prob", false}}),
            "norm_topk_prob: GGUF's qwen3_moe models have true\n");
  EXPECT_EQ(said("olmoe", {{"num_key_value_heads", 1}}),
            "num_key_value_heads: GGUF's olmoe models have as many keys as hidden_size\n");
  EXPECT_EQ(said("olmoe", {{"attention_bias", true}}), "attention_bias: GGUF's olmoe models have false\n");
}

}  // namespace
}  // namespace ft
