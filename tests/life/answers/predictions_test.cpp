// evaluation.predict_with_generate, tested from outside: numbers in the log, files next to the result, the
// same with several ranks.
#include <gtest/gtest.h>

#include "tests/life/program.h"
#include "tests/support/source.h"
#include "tests/support/t5_words.h"

namespace ft::test {
namespace {

// The demo's model and a few of its questions.
Json predicting() {
  const std::string demo = source_path("configs/demo");
  return {
      {"model", {{"model_name_or_path", demo + "/base"}}},
      {"data",
       {{"datasets", {{{"path", "train.jsonl"}}}}, {"eval_datasets", {{{"path", "held_out.jsonl"}}}}}},
      {"training", {{"max_steps", 2}, {"per_device_train_batch_size", 2}, {"per_device_eval_batch_size", 3}}},
      {"evaluation",
       {{"eval_strategy", "steps"},
        {"eval_steps", 1},
        {"predict_with_generate", true},
        {"metrics", {"loss", "bleu", "rouge", "exact_match"}},
        {"metric_for_best_model", "rouge1"}}},
      {"generation", {{"max_new_tokens", 6}, {"num_beams", 2}}}};
}

class Predictions : public testing::Test {
 protected:
  Predictions() {
    const auto lines = [&](const char* from, const char* to, std::size_t count) {
      std::istringstream in(contents(fs::path(source_path("configs/demo")) / from));
      std::ofstream out(w / to);
      std::string line;
      for (std::size_t i = 0; i < count && std::getline(in, line); ++i) out << line << "\n";
    };
    lines("questions.jsonl", "train.jsonl", 4);
    lines("held_out.jsonl", "held_out.jsonl", 7);
  }
  Workplace w{"llama", predicting()};
};

TEST_F(Predictions, AreMeasuredAndWritten) {
  ASSERT_EQ(w.train(), 0) << w.says();
  std::vector<Json> evaluations;
  for (const Json& row : rows(w / "out/log.jsonl"))
    if (row.contains("eval_loss")) evaluations.push_back(row);
  ASSERT_EQ(evaluations.size(), 2u);
  for (const char* key : {"eval_bleu", "eval_rouge1", "eval_rouge2", "eval_rougeL", "eval_rougeLsum",
                          "eval_exact_match", "eval_gen_len"})
    EXPECT_TRUE(evaluations[1].contains(key)) << key;
  EXPECT_FALSE(evaluations[1].contains("eval_chrf"));
  const Json results = Json::parse(contents(w / "out/predict_results.json"));
  for (const char* key : {"bleu", "rouge1", "exact_match", "gen_len", "loss"})
    EXPECT_EQ(results[std::string("predict_") + key], evaluations[1][std::string("eval_") + key]) << key;
  EXPECT_EQ(results["predict_samples"], 7);
  const std::string texts = contents(w / "out/generated_predictions.txt");
  EXPECT_EQ(std::count(texts.begin(), texts.end(), '\n'), 7);
  const Json state = Json::parse(contents(w / "out/trainer_state.json"));
  EXPECT_EQ(state["best_metric"], std::max(evaluations[0]["eval_rouge1"], evaluations[1]["eval_rouge1"]));

  // ft eval measures the same on the trained model
  ASSERT_EQ(w.run({"eval", "--config", "run.json", "--adapter", "out", "--json"}), 0) << w.says();
  const Json again = Json::parse(contents(w / "stdout"));
  EXPECT_EQ(again["eval_bleu"], evaluations[1]["eval_bleu"]);
  EXPECT_EQ(again["eval_gen_len"], evaluations[1]["eval_gen_len"]);
}

TEST_F(Predictions, SettingsThatDoNotFit) {
  EXPECT_EQ(w.train({"generation.max_length=3"}), 2);
  EXPECT_NE(w.says().find("held_out.jsonl:1: the prompt has "), std::string::npos) << w.says();
  EXPECT_NE(w.says().find(" tokens and generation.max_length is 3"), std::string::npos);
  EXPECT_EQ(w.train({"generation.forced_eos_token_id=512"}), 2);
  EXPECT_NE(w.says().find("generation.forced_eos_token_id: 512; the model's token ids are 0 to 511"),
            std::string::npos)
      << w.says();
  EXPECT_FALSE(fs::exists(w / "out/log.jsonl"));
}

TEST_F(Predictions, AreTheSameUnderRanks) {
  ASSERT_EQ(w.train(), 0) << w.says();
  const std::string alone = contents(w / "out/generated_predictions.txt");
  ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", "zero_stage=3",
                   "training.per_device_train_batch_size=1", "training.output_dir=both"}),
            0)
      << w.says();
  EXPECT_EQ(contents(w / "both/generated_predictions.txt"), alone);
}

struct T5Predictions : testing::Test {
  T5Predictions() {
    const fs::path model = w / "model", from = fs::read_symlink(model);
    fs::remove(model);
    fs::copy(from, model, fs::copy_options::recursive);
    give_words(model);
  }
  Workplace w{
      "t5",
      {{"data", {{"max_seq_length", nullptr}, {"val_set_size", 5}}},
       {"training", {{"max_steps", 2}}},
       {"evaluation", {{"eval_strategy", "steps"}, {"eval_steps", 2}, {"predict_with_generate", true}}},
       {"generation", {{"max_new_tokens", 7}, {"num_beams", 3}}},
       {"lora", {{"r", 4}}}}};
};

TEST_F(T5Predictions, AreMeasuredAloneAndUnderRanks) {
  ASSERT_EQ(w.train(), 0) << w.says();
  const Json results = Json::parse(contents(w / "out/predict_results.json"));
  EXPECT_EQ(results["predict_samples"], 5);
  EXPECT_TRUE(results.contains("predict_bleu"));
  const std::string alone = contents(w / "out/generated_predictions.txt");
  EXPECT_EQ(std::count(alone.begin(), alone.end(), '\n'), 5);
  EXPECT_NE(alone.find('w'), std::string::npos);
  ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", "zero_stage=3",
                   "training.output_dir=both", "training.gradient_accumulation_steps=1"}),
            0)
      << w.says();
  EXPECT_EQ(std::ranges::count(contents(w / "both/generated_predictions.txt"), '\n'), 5);
  ASSERT_EQ(w.run({"eval", "--config", "run.json", "--adapter", "out", "--json"}), 0) << w.says();
  const Json one = Json::parse(contents(w / "stdout"));
  EXPECT_EQ(one["eval_bleu"], results["predict_bleu"]);
  // ranks shard the prompts, and in stage 3 also the passes
  for (const char* stage : {"zero_stage=0", "zero_stage=3"}) {
    ASSERT_EQ(w.run({"launch", "-n", "3", "eval", "--config", "run.json", "--adapter", "out", "--json", stage,
                     "zero_optimization.stage3_param_persistence_threshold=0"}),
              0)
        << w.says();
    const Json some = Json::parse(contents(w / "stdout"));
    for (const char* key : {"eval_bleu", "eval_chrf", "eval_gen_len"}) EXPECT_EQ(some[key], one[key]) << key;
  }
}

TEST_F(T5Predictions, AreTheSameInAPipeline) {
  ASSERT_EQ(w.train(), 0) << w.says();
  ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", "training.output_dir=both",
                   "distributed.pipeline_parallel_size=2"}),
            0)
      << w.says();
  EXPECT_EQ(contents(w / "both/generated_predictions.txt"), contents(w / "out/generated_predictions.txt"));
  const auto measured = [&](const char* out) {
    return Json::parse(contents((w / out) / "predict_results.json"));
  };
  for (const char* key : {"predict_loss", "predict_bleu", "predict_chrf", "predict_gen_len"})
    EXPECT_EQ(measured("both")[key], measured("out")[key]) << key;
}

}  // namespace
}  // namespace ft::test
