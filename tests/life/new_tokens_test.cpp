// Runs that enlarge the vocabulary, tested from outside: all stages have the same bits, and an adapter
// contains its enlarged tables.
#include <map>

#include "engine/files/safetensors/safetensors_write.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

// 59 rows become 64.
Json grown(Json config, const std::string& golden) {
  config["model"] = {{"resize_token_embeddings_to_multiple_of", 64}};
  if (golden == "t5")
    config["data"] = {{"max_seq_length", nullptr}, {"max_source_length", 64}, {"max_target_length", 64}};
  return config;
}

TEST(NewRowsInParts, EveryStageHasTheSameBits) {
  for (const Json& kind : {kFull, kLora}) {
    const Json config = grown(kind, "llama");
    const Result whole = result_of("llama", config, 2, 0, 1);
    for (const int stage : {2, 3}) {
      const Result parts = result_of("llama", config, 2, stage, 1);
      EXPECT_EQ(parts.losses, whole.losses) << stage;
      EXPECT_TRUE(parts.weights == whole.weights) << stage;
    }
  }
}

class NewRows : public testing::TestWithParam<std::string> {};

TEST_P(NewRows, AnAdapterBringsItsTables) {
  for (const Json& kind : {kLora, kQlora}) {
    const Workplace w(GetParam(), grown(kind, GetParam()));
    ASSERT_EQ(w.train(), 0) << w.says();
    const Json settings = Json::parse(contents(w / "model/config.json"));
    const std::int64_t rows = (settings["vocab_size"].get<std::int64_t>() + 63) / 64 * 64;
    ASSERT_EQ(w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged"}), 0) << w.says();
    EXPECT_EQ(Json::parse(contents(w / "merged/config.json"))["vocab_size"], rows);
    const SafetensorsFile merged((w / "merged/model.safetensors").string());
    const StoredTensor* table =
        merged.find(GetParam() == "t5" ? "shared.weight" : "model.embed_tokens.weight");
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->shape[0], rows);
    // an adapter can be the start of another run
    ASSERT_EQ(w.train({"lora.adapter_name_or_path=out", "training.output_dir=more", "training.max_steps=1"}),
              0)
        << w.says();
  }
}

// Writes tensors of a file a second time, under further names: {old, new}.
void repeat_tensors(const fs::path& file, const std::vector<std::pair<std::string, std::string>>& names) {
  std::vector<TensorSpec> specs;
  std::map<std::string, std::vector<float>> values;
  const auto tensor = [&](const TensorSpec& s) {
    return Tensor(reinterpret_cast<std::byte*>(values[s.name].data()), DType::f32, s.shape);
  };
  {
    const SafetensorsFile from(file.string());
    const auto take = [&](const StoredTensor& t, const std::string& name) {
      specs.push_back({name, DType::f32, {t.shape[0], t.shape[1]}});
      values[name].resize(static_cast<std::size_t>(t.numel));
      from.read(t, tensor(specs.back()));
    };
    for (const StoredTensor& t : from.tensors()) take(t, t.name);
    for (const auto& [old, name] : names) take(*from.find(old), name);
  }
  write_safetensors(file.string(), specs, tensor);
}

// An enlarged table is saved with the adapter. If it also has trained rows, PEFT uses another name for it; of
// a tied head PEFT writes both a second time.
TEST(NewRowsThatAreTrained, HaveTheirTableUnderPeftsName) {
  const std::string in_peft = "base_model.model.", embedding = "model.embed_tokens", head = "lm_head",
                    table = ".token_adapter.base_layer.weight",
                    rows = ".token_adapter.trainable_tokens_delta";
  for (const std::string golden : {"llama", "qwen2"}) {
    Json config = grown({{"lora", {{"r", 4}, {"trainable_token_indices", {3, 60}}}}}, golden);
    const Workplace w(golden, config);
    ASSERT_EQ(w.train(), 0) << w.says();
    const fs::path adapter = w / "out/adapter_model.safetensors";
    {
      const SafetensorsFile file(adapter.string());
      const StoredTensor* below = file.find(in_peft + embedding + table);
      ASSERT_NE(below, nullptr);
      EXPECT_EQ(below->shape[0], 64);
      EXPECT_NE(file.find(in_peft + embedding + rows), nullptr);
      EXPECT_EQ(file.find(in_peft + embedding + ".weight"), nullptr);
    }
    const std::vector<std::string> merge{"merge", "--model",  "model",  "--adapter",
                                         "out",   "--output", "merged", "--overwrite"};
    ASSERT_EQ(w.run(merge), 0) << w.says();
    const std::string merged = contents(w / "merged/model.safetensors");
    repeat_tensors(adapter, {{in_peft + embedding + table, in_peft + head + table},
                             {in_peft + embedding + rows, in_peft + head + rows}});
    ASSERT_EQ(w.run(merge), golden == "qwen2" ? 0 : 3) << w.says();
    if (golden == "qwen2") {
      EXPECT_TRUE(contents(w / "merged/model.safetensors") == merged);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, NewRows, testing::Values("llama", "t5"));

}  // namespace
}  // namespace ft::test
