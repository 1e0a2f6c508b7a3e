// When a trial's steps suffice for a result, and which results are stored. The tests read no clock.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "app/tune/trials_file.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/train/schedules/list.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

// Steps of 1000 tokens. A slow first step comes before them, as in a real run.
std::vector<TimedStep> steps(std::initializer_list<double> seconds) {
  std::vector<TimedStep> all{{100, 1000}};
  for (const double s : seconds) all.push_back({s, 1000});
  return all;
}

TEST(TrialSpeed, IsTheMedianWithoutTheFirstStep) {
  const TrialSpeed speed = speed_of(steps({1, 2, 50}));
  EXPECT_EQ(speed.tokens_per_second, 500);
  EXPECT_EQ(speed.seconds_per_step, 2);
  EXPECT_GT(speed.noise, 0.3);
  EXPECT_NEAR(speed_of(steps({2, 2, 2, 2})).noise, 0.01, 1e-6);
  EXPECT_EQ(speed_of(steps({1, 3})).tokens_per_second, 500);
  EXPECT_EQ(speed_of(steps({})).tokens_per_second, 0);
  EXPECT_EQ(speed_of({}).tokens_per_second, 0);
}

TEST(TrialSpeed, StepsWithMoreTokensMayTakeLonger) {
  const std::vector<TimedStep> uneven{{9, 10}, {1, 100}, {3, 300}, {2, 200}};
  EXPECT_NEAR(speed_of(uneven).tokens_per_second, 100, 1e-9);
  EXPECT_NEAR(speed_of(uneven).seconds_per_step, 2, 1e-9);
}

TEST(TrialVerdict, GoesOnUntilItKnows) {
  using enum TrialVerdict;
  EXPECT_EQ(judge_trial({}, 0), go_on);
  EXPECT_EQ(judge_trial(steps({2, 2}), 0), go_on) << "too few";
  EXPECT_EQ(judge_trial(steps({2, 2, 2}), 0), enough);
  EXPECT_EQ(judge_trial(steps({0.1, 0.1, 0.1}), 0), go_on) << "too short";
  EXPECT_EQ(judge_trial(steps({1, 1.2, 0.8}), 0), go_on) << "not precise";
  EXPECT_EQ(judge_trial(steps({7, 8.4, 5.6}), 0), enough) << "long";
  std::vector<TimedStep> many(61, {0.001, 1000});
  EXPECT_EQ(judge_trial(many, 0), enough);
  many.pop_back();
  EXPECT_EQ(judge_trial(many, 0), go_on);
}

TEST(TrialVerdict, StopsTrialsThatAreClearlyBehind) {
  using enum TrialVerdict;
  EXPECT_EQ(judge_trial(steps({2}), 1000), go_on) << "one step does not tell";
  EXPECT_EQ(judge_trial(steps({2, 2}), 1000), behind);
  EXPECT_EQ(judge_trial(steps({2, 1.1}), 1000), go_on) << "one step was nearly as fast as the best";
  EXPECT_EQ(judge_trial(steps({1.2, 1.2}), 1000), go_on);
}

RunConfig some_config() {
  return parse_config(R"({"model": {"model_name_or_path": "m"}, "data": {"datasets": [{"path": "d"}]}})",
                      "run.json", "", {});
}

TEST(TrialConfig, OnlyTrainsItsSteps) {
  RunConfig config = some_config();
  config.evaluation.eval_strategy = EvalStrategy::epoch;
  config.evaluation.predict_with_generate = true;
  config.training.lr_scheduler_type = &schedules::kReduceLrOnPlateau;  // follows evaluations
  config.data_efficiency.enabled = true;
  const RunConfig trial = trial_config(config, "somewhere");
  EXPECT_EQ(trial.training.output_dir, "somewhere");
  EXPECT_EQ(trial.evaluation.eval_strategy, EvalStrategy::no);
  EXPECT_FALSE(trial.evaluation.predict_with_generate);
  EXPECT_EQ(trial.checkpointing.save_strategy, SaveStrategy::no);
  EXPECT_EQ(trial.logging.logging_steps, 1);
  EXPECT_FALSE(trial.data_efficiency.enabled) << "its first steps would be shorter";
  EXPECT_NO_THROW(parse_config(effective_config(trial), "run.json", "", {}));
}

class Trials : public testing::Test {
 protected:
  test::TempFolder folder_;
  std::string path_ = folder_ / "trials.jsonl";
};

TEST_F(Trials, AreReadBack) {
  {
    TrialsFile file(path_);
    file.add("a", "{}", {.speed = {100, 2, 0.05}, .steps = 3, .behind = true, .result = "slower"});
    file.add("b", "{\"x\": 1}", {.exit_code = 5, .result = "exit 5: memory"});
  }
  const TrialsFile file(path_);
  const TrialOutcome& a = *file.find("a");
  EXPECT_EQ(a.speed.tokens_per_second, 100);
  EXPECT_EQ(a.speed.seconds_per_step, 2);
  EXPECT_EQ(a.speed.noise, 0.05);
  EXPECT_EQ(a.steps, 3);
  EXPECT_TRUE(a.behind);
  EXPECT_EQ(file.find("b")->exit_code, 5);
  EXPECT_EQ(file.find("b")->result, "exit 5: memory");
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Trials, ALineThatWasCutOffIsRemoved) {
  { TrialsFile(path_).add("a", "{}", {.speed = {100, 2, 0.05}, .result = "done"}); }
  std::ofstream(path_, std::ios::app) << "{\"key\": \"b\", \"se";
  { TrialsFile(path_).add("c", "{}", {.speed = {200, 1, 0.05}, .result = "done"}); }
  const TrialsFile file(path_);
  EXPECT_TRUE(file.find("a"));
  EXPECT_FALSE(file.find("b"));
  EXPECT_TRUE(file.find("c"));
}

TEST_F(Trials, AnotherFileIsRefused) {
  for (const char* text :
       {"hello\n", "{}\n", "[1]\n", "{\"key\": \"a\", \"exit_code\": 0, \"result\": \"done\"}\n"}) {
    write_file(path_, text);
    try {
      const TrialsFile file(path_);
      ADD_FAILURE() << text;
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::input);
      EXPECT_NE(std::string(e.what()).find("trials.jsonl"), std::string::npos) << e.what();
    }
  }
}

TEST_F(Trials, AKeyIdentifiesTheTimedSettings) {
  RunConfig config = some_config();
  const std::string key = TrialsFile::key(config);
  config.training.output_dir = "elsewhere";
  config.evaluation.eval_steps = 7;
  EXPECT_EQ(TrialsFile::key(config), key);
  config.training.per_device_train_batch_size = 3;
  EXPECT_NE(TrialsFile::key(config), key);
}

}  // namespace
}  // namespace ft
