// Pipelines with several chunks of layers on each rank, tested from outside: the training of one rank, with
// any other settings.
#include <gtest/gtest.h>

#include "tests/life/trained.h"

namespace ft::test {
namespace {

const Words kChunks = {"distributed.pipeline_parallel_size=2",
                       "distributed.virtual_pipeline_parallel_size=2"};
// An epoch has five micro-batches, so its last step has one.
const Words kUneven = {"training.max_steps=6", "training.per_device_train_batch_size=5",
                       "training.max_grad_norm=0.5"};

// A model of five layers; one of the four chunks has two of them.
struct Deep : Workplace {
  explicit Deep(const Json& config, bool tied = false, const char* golden = "llama")
      : Workplace(golden, of_deep(config)) {
    Json c = Json::parse(contents(*this / "model/config.json"));
    c[c.contains("n_layer") ? "n_layer" : "num_hidden_layers"] = 5;
    c["dtype"] = "float32";
    c["tie_word_embeddings"] = tied;
    std::ofstream(*this / "config.json") << c.dump();
    EXPECT_EQ(run({"init", "--config", "config.json", "--output", "deep"}), 0) << says();
  }
  static Json of_deep(Json config) {
    config["model"]["model_name_or_path"] = "deep";
    return config;
  }
};

Trained train_deep(const Json& config, bool tied, int ranks, int stage, int accumulation, const Words& more) {
  const Deep w(config, tied);
  EXPECT_EQ(w.run(command(ranks, stage, accumulation, more)), 0) << w.says();
  return {losses(w / "out"), all_weights(w / file_of(config))};
}

class InterleavedStages : public testing::TestWithParam<Json> {};
INSTANTIATE_TEST_SUITE_P(All, InterleavedStages, testing::Values(kLora, kFull, kQlora));

TEST_P(InterleavedStages, AreOneRank) {
  for (const bool tied : {false, true}) {
    const Trained one = train_deep(GetParam(), tied, 1, 0, 4, kUneven);
    expect_same(train_deep(GetParam(), tied, 2, 0, 4, with(kChunks, kUneven)), one);
    expect_same(train_deep(GetParam(), tied, 4, tied ? 1 : 0, 2, with(kChunks, kUneven)), one);
  }
}

TEST_P(InterleavedStages, TakeThePlannedMemory) {
  for (const char* recompute : {"true", "false"}) {
    const Deep w(GetParam(), true, "gpt2");  // with few positions the search for the longest sample is short
    const Words more = with(kChunks, {str("training.gradient_checkpointing=", recompute),
                                      "training.gradient_accumulation_steps=4", "training.max_steps=3"});
    const Json planned = expect_planned_stages(w, 4, 1.0 / 9, more);
    EXPECT_EQ(planned.at("pipeline")[0].at("in_flight"), 5);
    EXPECT_EQ(planned.at("pipeline")[1].at("in_flight"), 3);
    EXPECT_EQ(planned.at("pipeline")[0].at("blocks"), 3);
  }
}

// Checkpoints of interleaved stages are continued by one rank, and the other way round.
TEST_P(InterleavedStages, SaveCheckpointsThatOtherRanksLoad) {
  const Words saving = with(kUneven, {"checkpointing.save_strategy=steps", "checkpointing.save_steps=3"});
  const Trained one = train_deep(GetParam(), true, 1, 0, 4, kUneven);
  for (const bool chunks_first : {true, false}) {
    const Deep w(GetParam(), true);
    const auto go = [&](bool chunks, const Words& more) {
      const Words all = with(with(saving, more), chunks ? kChunks : Words{});
      return w.run(command(chunks ? 4 : 1, chunks ? 1 : 0, chunks ? 2 : 4, all));
    };
    expect_continued(w, GetParam(), chunks_first, 3, one, go);
  }
}

TEST(InterleavedStages, EvaluateAndAnswer) {
  const Words more = {"training.max_steps=2", "data.val_set_size=5", "evaluation.eval_strategy=steps",
                      "evaluation.eval_steps=2"};
  std::vector<double> evaluated;
  std::vector<std::string> answered;
  for (const bool chunks : {false, true}) {
    const Deep w(kFull);
    const Words grid = chunks ? kChunks : Words{};
    ASSERT_EQ(w.run(command(chunks ? 2 : 1, 0, 2, with(more, grid))), 0) << w.says();
    for (const Json& row : rows(w / "out/log.jsonl"))
      if (row.contains("eval_loss")) evaluated.push_back(row["eval_loss"]);
    std::ofstream(w / "in.jsonl") << R"({"input_ids": [5, 6, 7]})"
                                     "\n"
                                     R"({"input_ids": [9]})"
                                     "\n";
    const Words ask = {"generate", "--model",  "deep",    "--input",
                       "in.jsonl", "--output", "o.jsonl", "generation.max_new_tokens=9"};
    ASSERT_EQ(w.run(with(chunks ? with({"launch", "-n", "2"}, ask) : ask, grid)), 0) << w.says();
    answered.push_back(contents(w / "o.jsonl"));
  }
  ASSERT_EQ(evaluated.size(), 2u);
  EXPECT_NEAR(evaluated[1], evaluated[0], 2e-6 * evaluated[0]);
  EXPECT_NE(answered[0].find("output_ids"), std::string::npos);
  EXPECT_EQ(answered[1], answered[0]);
}

TEST(InterleavedStages, RefuseUnsupportedSettings) {
  const Deep w(kFull);
  const auto refused = [&](int ranks, int accumulation, const Words& more, const std::string& says) {
    EXPECT_EQ(w.run(command(ranks, 0, accumulation, more)), 2) << says;
    EXPECT_NE(w.says().find(says), std::string::npos) << w.says();
    EXPECT_FALSE(fs::exists(w / "out/log.jsonl"));
  };
  refused(
      2, 3, kChunks,
      "training.gradient_accumulation_steps is 3, and with distributed.virtual_pipeline_parallel_size 2 it "
      "has to be a multiple of distributed.pipeline_parallel_size, 2; take 2 or 4");
  refused(
      2, 2, {"distributed.pipeline_parallel_size=2", "distributed.virtual_pipeline_parallel_size=3"},
      "distributed.virtual_pipeline_parallel_size is 3, and the model has 5 layers (num_hidden_layers), of "
      "which each chunk of 2 stages needs one; take at most 2");
  refused(2, 2, {"distributed.virtual_pipeline_parallel_size=2"},
          "distributed.virtual_pipeline_parallel_size is 2, and distributed.pipeline_parallel_size is 1");
}

TEST(InterleavedStages, AreVerifiedAndTraced) {
  const Deep w(kFull);
  EXPECT_EQ(w.run(with({"verify", "zero", "--config", "run.json", "--ranks", "1", "2", "4", "--steps", "2",
                        "training.gradient_accumulation_steps=2"},
                       kChunks)),
            0)
      << w.says() << contents(w / "stdout");
  Words traced = command(2, 0, 4, with(kChunks, {"training.max_steps=5", "logging.progress=plain"}));
  traced.insert(traced.begin() + 4, {"--trace", "trace.json"});
  ASSERT_EQ(w.run(traced), 0) << w.says();
  EXPECT_NE(w.says().find("waits for neighbouring stages; 11 % would if all took as long"), std::string::npos)
      << w.says();
}

// All other stages wait, because stages send to each other in a ring.
TEST(InterleavedStages, NameAStageThatIsStuck) {
  const Deep w(kLora);
  expect_stuck_one_is_named(w, command(2, 0, 2, kChunks));
}

}  // namespace
}  // namespace ft::test
