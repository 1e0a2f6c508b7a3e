// evaluation.predict_with_generate from the outside: figures in the log, files beside the result, the same
// under ranks.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

// The demo's model and a few of its questions.
Json predicting() {
  const std::string demo = FT_SOURCE_DIR "/configs/demo";
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
      std::istringstream in(contents(fs::path(FT_SOURCE_DIR) / "configs/demo" / from));
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
  for (const char* key :
       {"eval_bleu", "eval_rouge1", "eval_rouge2", "eval_rougeL", "eval_exact_match", "eval_gen_len"})
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

  // ft eval measures the same on what was trained
  ASSERT_EQ(w.run({"eval", "--config", "run.json", "--adapter", "out", "--json"}), 0) << w.says();
  const Json again = Json::parse(contents(w / "stdout"));
  EXPECT_EQ(again["eval_bleu"], evaluations[1]["eval_bleu"]);
  EXPECT_EQ(again["eval_gen_len"], evaluations[1]["eval_gen_len"]);
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

}  // namespace
}  // namespace ft::test
