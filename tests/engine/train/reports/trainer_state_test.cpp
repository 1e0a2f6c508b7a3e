// trainer_state.json: transformers' keys in transformers' order, the complete history, the best checkpoint.
#include "engine/train/reports/trainer_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/train/reports/json_log.h"
#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

nlohmann::ordered_json state_of(const TestFolder& folder) {
  return nlohmann::ordered_json::parse(text_of(folder.file("trainer_state.json")));
}

TEST(TrainerState, HasTransformersKeysSorted) {
  const TestFolder folder;
  std::filesystem::create_directories(folder.file("checkpoint-10"));
  TrainerState state(folder.file("trainer_state.json"));
  state.begin(sample_header());
  play(state, 1, 20);
  state.end(sample_summary(20));
  const auto json = state_of(folder);
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"best_global_step",
                                            "best_metric",
                                            "best_model_checkpoint",
                                            "epoch",
                                            "eval_steps",
                                            "global_step",
                                            "is_hyper_param_search",
                                            "is_local_process_zero",
                                            "is_world_process_zero",
                                            "log_history",
                                            "logging_steps",
                                            "max_steps",
                                            "num_input_tokens_seen",
                                            "num_train_epochs",
                                            "save_steps",
                                            "stateful_callbacks",
                                            "total_flos",
                                            "train_batch_size",
                                            "trial_name",
                                            "trial_params"}));
  EXPECT_EQ(json["best_global_step"], 10);
  EXPECT_EQ(json["best_metric"], 0.5);
  EXPECT_EQ(json["best_model_checkpoint"], "outputs/gsm8k/checkpoint-10");
  EXPECT_EQ(json["global_step"], 20);
  EXPECT_EQ(json["log_history"].size(), 20u + 4 + 1);
  EXPECT_EQ(json["log_history"][5]["eval_loss"], 0.75) << "an evaluation stands behind its step";
  EXPECT_EQ(json["log_history"][24]["train_loss"], 0.25);
  EXPECT_FALSE(json["log_history"][24].contains("memory"));
}

TEST(TrainerState, IsWrittenWithEveryCheckpoint) {
  const TestFolder folder;
  TrainerState state(folder.file("trainer_state.json"));
  state.begin(sample_header());
  play(state, 1, 7);
  const auto json = state_of(folder);
  EXPECT_EQ(json["global_step"], 5);
  EXPECT_EQ(json["epoch"], 0.5);
  EXPECT_EQ(json["best_model_checkpoint"], "outputs/gsm8k/checkpoint-5");
  EXPECT_EQ(json["log_history"].size(), 6u);
}

// The file in a checkpoint equals the file in the output folder.
TEST(TrainerState, GoesIntoTheCheckpoint) {
  const TestFolder folder;
  TrainerState state(folder.file("trainer_state.json"));
  state.begin(sample_header());
  play(state, 1, 9);
  state.step(sample_step(10));
  state.evaluation(sample_evaluation(10, 0.5, true));
  const TestFolder staged;
  state.saving(10, staged.path());
  EXPECT_EQ(state_of(folder)["global_step"], 5);
  state.saved({.step = 10, .seconds = 0.1, .folder = "outputs/gsm8k/checkpoint-10"});
  EXPECT_EQ(state_of(staged), state_of(folder));
  EXPECT_EQ(state_of(staged)["global_step"], 10);
  EXPECT_EQ(state_of(staged)["best_model_checkpoint"], "outputs/gsm8k/checkpoint-10");
}

// checkpointing.async_save: a better evaluation comes before the checkpoint of an earlier step is complete.
TEST(TrainerState, IsTheSameIfTrainingHasGoneOn) {
  std::vector<nlohmann::ordered_json> states;
  for (const bool beside : {false, true}) {
    const TestFolder folder;
    TrainerState state(folder.file("trainer_state.json"));
    state.begin(sample_header());
    play(state, 1, 9);
    state.step(sample_step(10));
    state.evaluation(sample_evaluation(10, 0.5, true));
    const TestFolder staged;
    state.saving(10, staged.path());
    const auto go_on = [&] {
      for (std::int64_t step = 11; step <= 13; ++step) state.step(sample_step(step));
      state.evaluation(sample_evaluation(13, 0.25, true));
    };
    if (beside) go_on();
    state.saved({.step = 10, .seconds = 0.1, .folder = "outputs/gsm8k/checkpoint-10"});
    states.push_back(state_of(folder));
    EXPECT_EQ(states.back(), state_of(staged));
    EXPECT_EQ(states.back()["best_global_step"], 10);
    EXPECT_EQ(states.back()["best_metric"], 0.5);
  }
  EXPECT_EQ(states[0], states[1]);
}

TEST(TrainerState, ResumedEqualsUninterrupted) {
  const TestFolder folder;
  std::filesystem::create_directories(folder.file("checkpoint-10"));
  TrainerState whole(folder.file("trainer_state.json"));
  whole.begin(sample_header());
  play(whole, 1, 20);
  whole.end(sample_summary(20));
  const auto expected = state_of(folder);

  JsonLog log(folder.file("log.jsonl"));
  log.begin(sample_header());
  play(log, 1, 13);
  RunHeader header = sample_header();
  header.resumed_step = 10;
  header.past = read_log(folder.file("log.jsonl"), 10);
  TrainerState resumed(folder.file("trainer_state.json"));
  resumed.begin(header);
  play(resumed, 11, 20);
  resumed.end(sample_summary(20));
  EXPECT_EQ(state_of(folder), expected);
}

TEST(TrainerState, BestFollowsTheMetricAndItsDirection) {
  const TestFolder folder;
  RunHeader header = sample_header();
  header.metric = "perplexity";
  header.greater_is_better = true;
  header.resumed_step = 10;
  for (const double p : {3.0, 9.0, 4.0})
    header.past.evaluations.push_back(
        {.step = static_cast<std::int64_t>(p), .eval_loss = 1 / p, .perplexity = p});
  TrainerState state(folder.file("trainer_state.json"));
  state.begin(header);
  state.end(sample_summary(20));
  EXPECT_EQ(state_of(folder)["best_metric"], 9.0);
  EXPECT_EQ(state_of(folder)["best_global_step"], 9);
  EXPECT_TRUE(state_of(folder)["best_model_checkpoint"].is_null()) << "there is no such folder";
}

// save_total_limit may delete the best checkpoint.
TEST(TrainerState, NamesExistingCheckpointsOnly) {
  const TestFolder folder;
  std::filesystem::create_directories(folder.file("checkpoint-10"));
  TrainerState state(folder.file("trainer_state.json"));
  state.begin(sample_header());
  play(state, 1, 14);
  EXPECT_EQ(state_of(folder)["best_model_checkpoint"], "outputs/gsm8k/checkpoint-10");
  std::filesystem::remove(folder.file("checkpoint-10"));
  play(state, 15, 15);
  EXPECT_TRUE(state_of(folder)["best_model_checkpoint"].is_null());
  EXPECT_EQ(state_of(folder)["best_global_step"], 10);
}

TEST(TrainerState, NanIsNeverTheBest) {
  const TestFolder folder;
  RunHeader header = sample_header();
  header.resumed_step = 4;
  for (const double loss : {double{NAN}, 3.0, double{NAN}})
    header.past.evaluations.push_back(
        {.step = std::ssize(header.past.evaluations) + 1, .eval_loss = loss, .perplexity = loss});
  TrainerState state(folder.file("trainer_state.json"));
  state.begin(header);
  state.end(sample_summary(20));
  EXPECT_EQ(state_of(folder)["best_metric"], 3.0);
  EXPECT_EQ(state_of(folder)["best_global_step"], 2);
  header.best_step = 0;
  TrainerState without(folder.file("trainer_state.json"));
  without.begin(header);
  without.end(sample_summary(20));
  EXPECT_TRUE(state_of(folder)["best_metric"].is_null());
}

}  // namespace
}  // namespace ft
