// Pipelines, tested from outside: the training of one rank, with any other settings.
#include <gtest/gtest.h>

#include "tests/life/trained.h"

namespace ft::test {
namespace {

// Returns `config`; for T5 with its two limits of lengths.
Json config_for(const std::string& golden, Json config) {
  if (!golden.starts_with("t5")) return config;
  config["data"]["max_seq_length"] = nullptr;  // removes Workplace's setting
  config["data"]["max_source_length"] = 64;
  return config;
}

const Words kTwo = {"distributed.pipeline_parallel_size=2"};
const Words kSteps = {"training.max_steps=8", "training.weight_decay=0.1", "training.max_grad_norm=0.5"};

class Stages : public testing::TestWithParam<Json> {};
INSTANTIATE_TEST_SUITE_P(All, Stages, testing::Values(kLora, kFull, kQlora, kFp8));

TEST_P(Stages, AreOneRank) {
  for (const std::string golden : {"llama", "gemma2", "t5", "t5-v11"}) {  // gemma2 and t5 are tied
    if (GetParam() == kQlora && golden == "gemma2") continue;
    const Json config = config_for(golden, GetParam());
    const Trained one = train_on(golden, config, 1, 0, 4, kSteps);
    expect_same(train_on(golden, config, 2, 0, 4, with(kTwo, kSteps)), one);
    for (int stage = 0; stage < 2; ++stage)
      expect_same(train_on(golden, config, 4, stage, 2, with(kTwo, kSteps)), one);
  }
}

TEST_P(Stages, ShareLayersAndSequencesToo) {
  if (GetParam() == kQlora) return;
  const Trained one = train_on("llama", GetParam(), 1, 0, 2, kSteps);
  for (const char* axis : {"distributed.tensor_parallel_size=2", "distributed.sequence_parallel_size=2"})
    expect_same(train_on("llama", GetParam(), 4, 0, 2, with(with(kTwo, kSteps), {axis})), one);
}

TEST_P(Stages, TakeThePlannedMemory) {
  for (const char* golden : {"llama", "t5-v11"}) {
    const Workplace w(golden, config_for(golden, GetParam()));
    const Words more =
        with(kTwo, {str("training.gradient_checkpointing=", GetParam() == kLora ? "true" : "false"),
                    "training.gradient_accumulation_steps=2"});
    expect_planned_stages(w, 2, 1.0 / 3, more);
  }
}

// Checkpoints of a pipeline are continued by one rank, and the other way round.
TEST_P(Stages, SaveCheckpointsThatOtherRanksLoad) {
  const Words saving = with(kSteps, {"checkpointing.save_strategy=steps", "checkpointing.save_steps=3"});
  for (const char* golden : {"gemma2", "t5"}) {
    const Json config = config_for(golden, GetParam());
    const Trained one = train_on(golden, config, 1, 0, 4, kSteps);
    for (const bool pipeline_first : {true, false}) {
      const Workplace w(golden, config);
      const auto go = [&](bool pipeline, const Words& more) {
        const Words all = with(with(saving, more), pipeline ? kTwo : Words{});
        return w.run(command(pipeline ? 4 : 1, pipeline ? 1 : 0, pipeline ? 2 : 4, all));
      };
      expect_continued(w, config, pipeline_first, 3, one, go);
    }
  }
}

std::vector<double> evaluations(const Workplace& w) {
  std::vector<double> all;
  for (const Json& row : rows(w / "out/log.jsonl"))
    if (row.contains("eval_loss")) all.push_back(row["eval_loss"]);
  return all;
}

TEST(Stages, Evaluate) {
  const Words more = {"training.max_steps=4", "data.val_set_size=5", "evaluation.eval_strategy=steps",
                      "evaluation.eval_steps=2"};
  for (const char* golden : {"llama", "t5"}) {
    const Workplace one(golden, config_for(golden, kFull)), two(golden, config_for(golden, kFull));
    ASSERT_EQ(one.run(command(1, 0, 2, more)), 0) << one.says();
    ASSERT_EQ(two.run(command(4, 1, 1, with(more, kTwo))), 0) << two.says();
    const std::vector<double> got = evaluations(two), want = evaluations(one);
    ASSERT_EQ(got.size(), 2u);
    ASSERT_EQ(want.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(got[i], want[i], 2e-6 * want[i]);
    ASSERT_EQ(
        two.run(with({"launch", "-n", "2", "eval", "--config", "run.json", "--json", "data.val_set_size=5"},
                     kTwo)),
        0)
        << two.says();
    EXPECT_TRUE(Json::parse(contents(two / "stdout")).contains("eval_loss"));
  }
}

TEST(Stages, RefuseUnsupportedSettings) {
  const Workplace w("llama", kFull);
  const std::vector<std::pair<Words, std::string>> all = {
      {{"distributed.pipeline_parallel_size=4"},
       "distributed.pipeline_parallel_size is 4, and the model has 2 layers (num_hidden_layers)"},
      {{"distributed.pipeline_parallel_size=2", "zero_stage=2"}, "zero_optimization.stage: is 2"},
      {{"distributed.pipeline_parallel_size=2", "objective.type=dpo"}, "objective"},
      {{"distributed.pipeline_parallel_size=2", "training.gradient_checkpointing=offload"},
       "training.gradient_checkpointing: offload"},
  };
  for (const auto& [more, says] : all) {
    EXPECT_EQ(w.run(command(4, 0, 1, more)), 2) << says;
    EXPECT_NE(w.says().find(says), std::string::npos) << w.says();
    EXPECT_FALSE(fs::exists(w / "out/log.jsonl"));
  }
}

TEST(Stages, RefuseSettingsThatEncoderDecodersLack) {
  const Workplace w("t5", config_for("t5", kFull));
  EXPECT_EQ(w.run(command(5, 0, 1, {"distributed.pipeline_parallel_size=5"})), 2);
  EXPECT_NE(w.says().find("the model has 4 layers (num_layers + num_decoder_layers), of which each stage"),
            std::string::npos)
      << w.says();
  EXPECT_EQ(w.run(command(2, 0, 2, with(kTwo, {"distributed.virtual_pipeline_parallel_size=2"}))), 2);
  EXPECT_NE(w.says().find("distributed.virtual_pipeline_parallel_size is 2: an encoder-decoder's blocks"),
            std::string::npos)
      << w.says();
}

TEST(Stages, GiveOneRanksAnswers) {
  for (const std::string golden : {"llama", "t5"}) {
    const Workplace w(golden);
    std::ofstream(w / "in.jsonl") << R"({"input_ids": [5, 6, 7]})"
                                     "\n"
                                     R"({"input_ids": [9]})"
                                     "\n"
                                  << R"({"input_ids": [3, 4, 11, 12, 13]})"
                                     "\n";
    const auto answers = [&](const Words& launch, const Words& more) {
      const Words words = {"generate", "--model",  "model",   "--input",
                           "in.jsonl", "--output", "o.jsonl", "--overwrite"};
      EXPECT_EQ(w.run(with(with(launch, words), with({"generation.max_new_tokens=9"}, more))), 0) << w.says();
      return contents(w / "o.jsonl");
    };
    const std::string one = answers({}, {});
    EXPECT_NE(one.find("output_ids"), std::string::npos);
    EXPECT_EQ(answers({"launch", "-n", "2"}, kTwo), one);
    EXPECT_EQ(answers({"launch", "-n", "4"}, kTwo), one);
    if (golden == "llama") {  // t5 has three heads
      EXPECT_EQ(answers({"launch", "-n", "4"}, with(kTwo, {"distributed.tensor_parallel_size=2"})), one);
    }
    const Words beams = {"generation.num_beams=3"};
    EXPECT_EQ(answers({"launch", "-n", "2"}, with(kTwo, beams)), answers({}, beams));
  }
}

TEST(Stages, AreVerifiedAndTraced) {
  const Workplace w("llama", kFull);
  EXPECT_EQ(
      w.run(with({"verify", "zero", "--config", "run.json", "--ranks", "1", "2", "4", "--steps", "2"}, kTwo)),
      0)
      << w.says() << contents(w / "stdout");
  Words traced = command(2, 0, 4, with(kTwo, {"training.max_steps=5", "logging.progress=plain"}));
  traced.insert(traced.begin() + 4, {"--trace", "trace.json"});
  ASSERT_EQ(w.run(traced), 0) << w.says();
  EXPECT_NE(w.says().find("waits for neighbouring stages; 20 % would if all took as long"), std::string::npos)
      << w.says();
  EXPECT_NE(contents(w / "trace.json").find("send_receive"), std::string::npos);
}

// All other stages wait for messages of the stuck one.
TEST(Stages, NameAStageThatIsStuck) {
  const Workplace w("llama", kLora);
  expect_stuck_one_is_named(w, command(2, 0, 2, kTwo));
}

}  // namespace
}  // namespace ft::test
