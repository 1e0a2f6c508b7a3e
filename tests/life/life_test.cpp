// The life of a run, tested from outside: resumed, killed, stopped by a signal or split differently, it is
// the same training.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "tests/life/program.h"

namespace ft::test {
namespace {

constexpr const char* kAdapter = "out/adapter_model.safetensors";

std::string trained(const Json& config, const std::vector<std::string>& overrides,
                    const char* result = kAdapter) {
  const Workplace w("llama", config);
  EXPECT_EQ(w.train(overrides), 0) << w.says();
  return contents(w / result);
}

class Resume : public testing::TestWithParam<std::tuple<Json, const char*, bool>> {};

// With dropout, shuffling and bf16, a run that was stopped in the middle and resumed gives the same bits as
// one without a stop.
TEST_P(Resume, IsBitwise) {
  const auto& [config, result, bf16] = GetParam();
  const std::string number = bf16 ? "training.bf16=true" : "training.bf16=false";
  const std::string whole = trained(config, {number}, result);
  ASSERT_FALSE(whole.empty());
  const Workplace w("llama", config);
  ASSERT_EQ(w.train({number, "checkpointing.save_strategy=steps", "checkpointing.save_steps=5"}), 0)
      << w.says();
  const std::vector<double> before = losses(w / "out");
  ASSERT_EQ(w.train({number, "training.resume_from_checkpoint=out/checkpoint-10"}), 0) << w.says();
  EXPECT_EQ(contents(w / result), whole);
  EXPECT_EQ(losses(w / "out"), before);
}

const Json kStreamed = {{"lora", {{"r", 4}}},
                        {"data", {{"streaming", true}, {"shuffle_buffer_size", 7}}},
                        {"training", {{"max_steps", 18}}}};

const Json kLion = {{"finetuning_type", "full"}, {"training", {{"optim", "lion"}}}};

// A rate that depends on evaluations, and betas that depend on the step.
const Json kPlateau = {{"lora", {{"r", 4}}},
                       {"data", {{"val_set_size", 2}}},
                       {"training",
                        {{"learning_rate", 0.02},
                         {"lr_scheduler_type", "reduce_lr_on_plateau"},
                         {"lr_scheduler_kwargs", {{"patience", 0}, {"threshold", 0.01}, {"factor", 0.5}}}}},
                       {"evaluation", {{"eval_strategy", "steps"}, {"eval_steps", 2}}}};
const Json kGreedy = {
    {"lora", {{"r", 4}}},
    {"data", {{"val_set_size", 2}}},
    {"training",
     {{"learning_rate", 0.02},
      {"lr_scheduler_type", "greedy"},
      {"lr_scheduler_kwargs", {{"patience", 0}, {"factor", 0.5}, {"min_lr", 0.01}, {"smooth", true}}}}},
    {"evaluation", {{"eval_strategy", "steps"}, {"eval_steps", 2}}}};
const Json kOneCycle = {{"lora", {{"r", 4}}},
                        {"training",
                         {{"lr_scheduler_type", "OneCycle"},
                          {"lr_scheduler_kwargs",
                           {{"cycle_min_lr", 1e-4}, {"cycle_max_lr", 1e-2}, {"cycle_first_step_size", 6}}}}}};

INSTANTIATE_TEST_SUITE_P(All, Resume,
                         testing::Values(std::make_tuple(kLora, kAdapter, false),
                                         std::make_tuple(kLora, kAdapter, true),
                                         std::make_tuple(kStreamed, kAdapter, false),
                                         std::make_tuple(kFull, "out/model.safetensors", false),
                                         std::make_tuple(kFull, "out/model.safetensors", true),
                                         std::make_tuple(kLion, "out/model.safetensors", false),
                                         std::make_tuple(kPlateau, kAdapter, false),
                                         std::make_tuple(kGreedy, kAdapter, false),
                                         std::make_tuple(kOneCycle, kAdapter, false)));

// After a kill at any moment, the newest complete checkpoint exists, and the run continues to the same end.
TEST(Life, KilledAtAnyInstant) {
  const std::string whole = trained(kLora, {"training.num_train_epochs=40"});
  const Workplace w("llama", kLora);
  const std::vector<std::string> run = {"train",
                                        "--config",
                                        "run.json",
                                        "training.num_train_epochs=40",
                                        "training.resume_from_checkpoint=auto",
                                        "checkpointing.save_strategy=steps",
                                        "checkpointing.save_steps=1",
                                        "checkpointing.save_total_limit=2"};
  for (int kill_after = 3; kill_after < 60; kill_after += 13) {
    const pid_t pid = w.start(run);
    std::this_thread::sleep_for(std::chrono::milliseconds(kill_after * 7));
    kill(pid, SIGKILL);
    Workplace::finish(pid);
  }
  // The next run removes the leftovers of a run that was killed while it saved.
  const std::filesystem::path leftover = w / "out/checkpoint-1.tmp-ft0123456789";
  std::filesystem::create_directory(leftover);
  ASSERT_EQ(w.run(run), 0) << w.says();
  EXPECT_EQ(contents(w / kAdapter), whole);
  EXPECT_FALSE(std::filesystem::exists(leftover));
}

TEST(Life, SignalsSaveAndExit75) {
  // Many epochs, so that on a busy machine the run has not ended when the signal arrives.
  const std::string whole = trained(kLora, {"training.num_train_epochs=400"});
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP}) {
    const Workplace w("llama", kLora);
    const std::vector<std::string> run = {"train", "--config", "run.json", "training.num_train_epochs=400",
                                          "training.resume_from_checkpoint=auto"};
    const pid_t pid = w.start(run);
    ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
    kill(pid, signal);
    ASSERT_EQ(Workplace::finish(pid), 75) << w.says();
    ASSERT_EQ(w.run(run), 0) << w.says();
    EXPECT_EQ(contents(w / kAdapter), whole);
  }
}

TEST(Life, TheReaderOfTheOutputMayLeave) {
  for (const std::string program : {"train", "launch"}) {
    const Workplace w("llama", kLora);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    std::vector<std::string> run = {"train",
                                    "--config",
                                    "run.json",
                                    "training.num_train_epochs=100000",
                                    "checkpointing.save_total_limit=2",
                                    "logging.progress=plain"};
    if (program == "launch") run.insert(run.begin(), {"launch", "-n", "2"});
    const pid_t pid = w.start(run, ends[1]);
    close(ends[1]);
    EXPECT_TRUE(w.wait_for_rows(3));
    close(ends[0]);
    EXPECT_EQ(Workplace::finish(pid), 75) << program;
    EXPECT_EQ(w.run({"checkpoint", "verify", "out"}), 0) << w.says();
  }
}

// nohup starts programs with SIGHUP ignored.
TEST(Life, IgnoredSignalsStayIgnored) {
  const Workplace w("llama", kLora);
  signal(SIGHUP, SIG_IGN);
  const pid_t pid = w.start({"train", "--config", "run.json", "training.num_train_epochs=100"});
  signal(SIGHUP, SIG_DFL);
  EXPECT_TRUE(w.wait_for_rows(3)) << w.says();
  kill(pid, SIGHUP);
  EXPECT_EQ(Workplace::finish(pid), 0) << w.says();
}

// Recomputing the blocks changes no bit.
TEST(Life, RecomputationIsBitwise) {
  for (const Json& config : {kLora, kFull}) {
    const char* result = config == kLora ? kAdapter : "out/model.safetensors";
    EXPECT_EQ(trained(config, {"training.gradient_checkpointing=true"}, result),
              trained(config, {"training.gradient_checkpointing=false"}, result));
  }
}

// A batch in one piece, in several pieces or padded gives the same losses except for rounding.
TEST(Life, SplitsOfABatchMeanTheSame) {
  const auto losses_of = [](const std::vector<std::string>& overrides) {
    const Workplace w("llama", kFull);
    EXPECT_EQ(w.train(overrides), 0) << w.says();
    return losses(w / "out");
  };
  const std::vector<double> one = losses_of({"training.per_device_train_batch_size=6"});
  const std::vector<std::vector<std::string>> others = {
      {"training.per_device_train_batch_size=3", "training.gradient_accumulation_steps=2"},
      {"training.per_device_train_batch_size=1", "training.gradient_accumulation_steps=6"},
      {"training.per_device_train_batch_size=6", "data.pad_to_max_length=true"}};
  for (const auto& overrides : others) {
    const std::vector<double> split = losses_of(overrides);
    ASSERT_EQ(split.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(split[i], one[i], 2e-5 * one[i]) << overrides[0] << " step " << i;
  }
}

// The trainer_state.json of a checkpoint has the state at the checkpoint's step, like transformers' Trainer,
// and is listed in the manifest.
TEST(Life, CheckpointsHoldTheTrainersState) {
  const Workplace w("llama", kLora);
  ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"}), 0) << w.says();
  for (const int step : {5, 10}) {
    const fs::path folder = w / ("out/checkpoint-" + std::to_string(step));
    const Json state = Json::parse(contents(folder / "trainer_state.json"), nullptr, false);
    ASSERT_TRUE(state.is_object()) << folder;
    EXPECT_EQ(state["global_step"], step);
    EXPECT_EQ(state["log_history"].size(), static_cast<std::size_t>(step));
    EXPECT_EQ(state["log_history"].back()["step"], step);
    EXPECT_TRUE(Json::parse(contents(folder / "manifest.json"))["files"].contains("trainer_state.json"));
  }
}

// ft data show prints the same notes on the data as training, next to the samples.
TEST(Life, DataShowReportsCutAndDroppedSamples) {
  const Workplace w("llama");
  for (const char* how : {"drop", "keep_start"}) {
    const std::vector<std::string> settings = {"data.max_seq_length=9",
                                               std::string("data.truncation=") + how};
    std::vector<std::string> show = {"data", "show", "--config", "run.json", "--json"};
    show.insert(show.end(), settings.begin(), settings.end());
    ASSERT_EQ(w.run(show), 0) << w.says();
    const std::string said = w.says();
    EXPECT_NE(said.find("training samples are longer than data.max_seq_length (9) and were "),
              std::string::npos)
        << said;
    for (const Json& sample : rows(w / "stdout")) EXPECT_LE(sample["input_ids"].size(), 9u);
    std::vector<std::string> train = {"--overwrite", "training.max_steps=1", "logging.progress=plain"};
    train.insert(train.end(), settings.begin(), settings.end());
    ASSERT_EQ(w.train(train), 0) << w.says();
    EXPECT_NE(w.says().find(said), std::string::npos) << w.says();
  }
}

// A stream is read only as far as needed: the invalid row is either beyond the shown samples, or reached.
TEST(Life, DataShowReadsAStreamNoFurtherThanItShows) {
  const Workplace w("llama");
  {
    std::ofstream file(w / "rows.jsonl");
    for (int i = 0; i < 1500; ++i) file << "{\"input_ids\": [" << i % 50 << ", 3, 4]}\n";
    file << "no row\n";
  }
  const std::vector<std::string> show = {"data",
                                         "show",
                                         "--config",
                                         "run.json",
                                         "data.streaming=true",
                                         "data.shuffle_buffer_size=64",
                                         R"(data.datasets=[{"path":"rows.jsonl","type":"tokenized"}])"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), show.begin(), show.end());
    return w.run(more);
  };
  ASSERT_EQ(with({"--limit", "3"}), 0) << w.says();
  EXPECT_EQ(w.says(), "");
  const std::string shown = contents(w / "stdout");
  EXPECT_NE(shown.find("sample 3, rows.jsonl:3, 3 tokens, 2 trained"), std::string::npos) << shown;
  EXPECT_NE(shown.find("3 samples of the first 3 rows; data.streaming is on"), std::string::npos) << shown;
  ASSERT_EQ(with({"--json", "--limit", "1500"}), 0) << w.says();
  EXPECT_EQ(rows(w / "stdout").size(), 1500u);
  EXPECT_EQ(rows(w / "stdout").back()["source"], "rows.jsonl:1500");
  EXPECT_EQ(with({"--json"}), 3);
  EXPECT_NE(w.says().find("rows.jsonl:1501"), std::string::npos) << w.says();
  EXPECT_GE(rows(w / "stdout").size(), 1024u) << "what was read before is shown";
  EXPECT_EQ(with({"data.val_set_size=2"}), 2);
  EXPECT_NE(w.says().find("nothing can be held out of a stream"), std::string::npos) << w.says();
}

// A trace covers three steps, however long the run is, and is written before its end.
TEST(Life, ATraceIsOfThreeStepsAfterTheFirst) {
  const Workplace w("llama");
  const auto traced = [&](int steps) {
    const std::string number = std::to_string(steps), file = "trace" + number;
    EXPECT_EQ(w.train({"--overwrite", "--trace", file, "training.max_steps=" + number}), 0) << w.says();
    EXPECT_NE(w.says().find("trace    " + file), std::string::npos) << w.says();
    std::map<std::string, int> calls;
    const Json trace = Json::parse(contents(w / file));
    for (const Json& event : trace["traceEvents"]) ++calls[event["name"]];
    return calls;
  };
  const auto one = traced(1), two = traced(2), four = traced(4), many = traced(30);
  EXPECT_GT(one.at("adamw"), 0);
  EXPECT_EQ(one.at("adamw"), two.at("adamw"));
  EXPECT_EQ(3 * one.at("adamw"), four.at("adamw"));
  EXPECT_EQ(four, many);
}

TEST(Life, NotANumberNamesTheFirstTensor) {
  const Workplace w("llama", kFull);
  EXPECT_EQ(w.train({"training.learning_rate=1e30", "training.max_grad_norm=0", "training.optim=sgd"}), 7);
  EXPECT_NE(w.says().find("is not a finite number; the first such: "), std::string::npos) << w.says();
  EXPECT_NE(w.says().find("model."), std::string::npos) << w.says();
  EXPECT_FALSE(fs::exists(w / "out/model.safetensors"));
}

TEST(Life, BestCheckpointAndEarlyStopping) {
  const Workplace w("llama", {{"finetuning_type", "full"},
                              {"evaluation",
                               {{"eval_strategy", "steps"},
                                {"eval_steps", 2},
                                {"load_best_model_at_end", true},
                                {"early_stopping_patience", 2}}},
                              {"data", {{"val_set_size", 4}}},
                              {"checkpointing", {{"save_strategy", "best"}}}});
  ASSERT_EQ(w.train({"training.learning_rate=0.05", "training.num_train_epochs=30"}), 0) << w.says();
  double best = 1e9;
  std::size_t evaluations = 0;
  for (const Json& row : rows(w / "out/log.jsonl"))
    if (row.contains("eval_loss")) best = std::min(best, row["eval_loss"].get<double>()), ++evaluations;
  EXPECT_LT(evaluations, 60u);  // it stopped before the end
  ASSERT_EQ(w.run({"eval", "--config", "run.json", "model.model_name_or_path=out", "--json"}), 0) << w.says();
  EXPECT_NEAR(Json::parse(contents(w / "stdout"))["eval_loss"].get<double>(), best, 1e-5 * best);
}

// An empty entry in a program's search path means its working folder.
TEST(Life, TakesNoLibraryFromTheWorkingFolder) {
  const Workplace w("llama");
  for (const char* library : {"libdnnl.so.2", "libdnnl.so.3", "libzstd.so.1", "libz.so.1", "liblz4.so.1",
                              "libsnappy.so.1", "libbrotlidec.so.1"})
    std::ofstream(w / library) << "no library";
  EXPECT_EQ(w.run({"--version"}), 0) << w.says();
}

}  // namespace
}  // namespace ft::test
