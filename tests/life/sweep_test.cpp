// A sweep, tested from outside: failures are results, and a stopped sweep continues.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

std::vector<std::string> words(const std::string& grid, std::vector<std::string> more = {}) {
  std::vector<std::string> all{"sweep", "--config", "run.json", "sweep.grid=" + grid};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Json result_of(const Workplace& w, const std::string& run) {
  const Json all = Json::parse(contents(w / "out/sweep.json"));
  for (const Json& r : all["runs"])
    if (r["run"] == run) return r;
  ADD_FAILURE() << run << " is not in " << all;
  return {};
}

const std::string kShort = "training.max_steps=2";

TEST(Sweep, AFailureIsAResult) {
  const Workplace w("llama");
  const std::string grid = R"({"model.model_name_or_path": ["missing", "model"], "training.seed": [1, 2]})";
  ASSERT_EQ(w.run(words(grid, {kShort})), 0) << w.says();
  EXPECT_NE(w.says().find("2 of 4 runs; table in out/sweep.md"), std::string::npos) << w.says();
  const Json failed = result_of(w, "model_name_or_path=missing,seed=1");
  EXPECT_EQ(failed["exit_code"], 3);
  EXPECT_TRUE(std::string(failed["result"]).starts_with("exit 3: ")) << failed;
  EXPECT_NE(std::string(failed["result"]).find("missing"), std::string::npos) << failed;
  const Json done = result_of(w, "model_name_or_path=model,seed=2");
  const Json last = rows(w / "out/model_name_or_path=model,seed=2/log.jsonl").back();
  EXPECT_EQ(done["train_loss"], last["train_loss"]);
  EXPECT_EQ(done["peak_memory_bytes"], last["memory"]["total"]);
  EXPECT_NE(contents(w / "stdout").find("done"), std::string::npos);
  for (const char* file : {"sweep.csv", "sweep.md", "sweep.svg"})
    EXPECT_TRUE(fs::exists(w / "out" / file)) << file;

  EXPECT_EQ(w.run(words(grid, {kShort, "sweep.on_failure=stop", "training.output_dir=other"})), 3);
  EXPECT_EQ(Json::parse(contents(w / "other/sweep.json"))["runs"].size(), 1u);
}

TEST(Sweep, FinishedRunsAreRepeatedOnlyIfTheirSettingsChanged) {
  const Workplace w("llama");
  const std::string grid = R"({"training.learning_rate": [0.001, 0.002]})";
  ASSERT_EQ(w.run(words(grid, {kShort})), 0) << w.says();
  const auto log = w / "out/learning_rate=0.001/log.jsonl";
  const auto written = fs::last_write_time(log);
  ASSERT_EQ(w.run(words(R"({"training.learning_rate": [0.001, 0.003]})", {kShort})), 0) << w.says();
  EXPECT_EQ(fs::last_write_time(log), written);
  EXPECT_TRUE(fs::exists(w / "out/learning_rate=0.003/adapter_model.safetensors"));
  ASSERT_EQ(w.run(words(grid, {"training.max_steps=3"})), 0) << w.says();
  EXPECT_EQ(rows(log).back()["step"], 3);
}

TEST(Sweep, GoesOnWhereItWasStopped) {
  const Workplace w("llama");
  const auto sweep = words(
      R"({"training.seed": [1, 2]})",
      {"training.max_steps=3000", "checkpointing.save_strategy=steps", "checkpointing.save_steps=5000"});
  const pid_t pid = w.start(sweep);
  EXPECT_TRUE(comes_to_hold(120, [&] { return !contents(w / "out/seed=1/log.jsonl").empty(); }));
  kill(pid, SIGTERM);
  EXPECT_EQ(Workplace::finish(pid), 75) << w.says();
  const auto before = rows(w / "out/seed=1/log.jsonl");
  ASSERT_FALSE(before.empty());
  auto shorter = sweep;
  ASSERT_EQ(w.run(shorter), 0) << w.says();
  EXPECT_EQ(rows(w / "out/seed=1/log.jsonl").front(), before.front()) << "it began again instead of going on";
  EXPECT_EQ(rows(w / "out/seed=2/log.jsonl").back()["step"], 3000);
}

TEST(Sweep, FindsALearningRateAndDoesNotMeasureTwice) {
  const Workplace w("llama", {{"data", {{"val_set_size", 3}}}});
  const std::vector<std::string> find{"sweep",  "--config",      "run.json",
                                      "--find", "learning_rate", "training.max_steps=32"};
  ASSERT_EQ(w.run(find), 0) << w.says();
  const std::string said = contents(w / "stdout");
  const std::size_t at = said.rfind("training.learning_rate=");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_GT(std::stod(said.substr(at + 23)), 0);
  const std::string csv = contents(w / "out/find.csv");
  const auto lines = std::count(csv.begin(), csv.end(), '\n');
  EXPECT_TRUE(lines == 10 || lines == 11) << csv;
  EXPECT_NE(csv.find(",16,"), std::string::npos) << "two rates on half of 32 steps";
  EXPECT_TRUE(fs::exists(w / "out/learning_rate.svg"));
  const auto log = w / "out/learning_rate=0.003,max_steps=2/log.jsonl";
  const auto written = fs::last_write_time(log);
  ASSERT_EQ(w.run(find), 0) << w.says();
  EXPECT_EQ(fs::last_write_time(log), written);
  EXPECT_EQ(contents(w / "stdout"), said);

  const Workplace nothing_held_out("llama");
  EXPECT_EQ(nothing_held_out.run(find), 2);
  EXPECT_NE(nothing_held_out.says().find("data.val_set_size"), std::string::npos);
}

TEST(Sweep, PlansWithoutRunning) {
  const Workplace w("llama");
  ASSERT_EQ(w.run(words(R"({"data.max_seq_length": [32, 64]})", {"--dry-run"})), 0) << w.says();
  const std::string table = contents(w / "stdout");
  EXPECT_NE(table.find("fits"), std::string::npos) << table;
  ASSERT_EQ(w.run(words(R"({"data.max_seq_length": [32, 64], "lora.r": [2, 4]})", {"--longest"})), 0)
      << w.says();
  EXPECT_NE(contents(w / "stdout").find("longest max_seq_length\nr 2 "), std::string::npos)
      << contents(w / "stdout");
  EXPECT_FALSE(fs::exists(w / "out"));
}

}  // namespace
}  // namespace ft::test
