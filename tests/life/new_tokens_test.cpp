// A vocabulary that has grown, from the outside: all stages have the same bits, and an adapter brings its
// tables along.
#include "engine/io/safetensors.h"
#include "tests/life/ranks.h"

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
    // a checkpoint goes on, and an adapter is a start
    ASSERT_EQ(w.train({"lora.adapter_name_or_path=out", "training.output_dir=more", "training.max_steps=1"}),
              0)
        << w.says();
  }
}
INSTANTIATE_TEST_SUITE_P(Models, NewRows, testing::Values("llama", "t5"));

}  // namespace
}  // namespace ft::test
