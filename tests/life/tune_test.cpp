// ft tune, tested from outside: it writes a configuration that trains, measures nothing twice, and stops
// cleanly.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

// A short search: two micro-batches, with and without recomputation.
const Json kSmall = {{"training", {{"per_device_train_batch_size", 2}, {"gradient_accumulation_steps", 2}}},
                     {"tune",
                      {{"space",
                        {{"training.per_device_train_batch_size", {1, 2}},
                         {"training.gradient_checkpointing", {true, false}},
                         {"distributed.nproc_per_node", {1}}}}}}};

std::vector<std::string> tuning(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"tune", "--config", "run.json"});
  return more;
}

TEST(Tune, LeavesAConfigurationThatTrains) {
  const Workplace w("llama", kSmall);
  ASSERT_EQ(w.run(tuning({"--json", "--trials", "all"})), 0) << w.says();
  const Json out = Json::parse(contents(w / "stdout"));
  EXPECT_EQ(out["trials"].size(), 4u);
  EXPECT_EQ(out["fit"], 4);
  EXPECT_GT(out["best"]["tokens_per_second"], 0);
  for (const Json& trial : out["trials"])
    EXPECT_LE(trial["tokens_per_second"], out["best"]["tokens_per_second"]);
  for (const char* file : {"tuned.json", "tune.md", "tune.svg", "trials.jsonl"})
    EXPECT_TRUE(fs::exists(w / "out/tune" / file)) << file;
  EXPECT_FALSE(fs::exists(w / "out/tune/trial")) << "what trials leave is removed";
  const Json tuned = Json::parse(contents(w / "out/tune/tuned.json"));
  for (const char* setting :
       {"per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing"})
    EXPECT_EQ(tuned["training"][setting], out["best"]["settings"][std::string("training.") + setting]);
  ASSERT_EQ(w.run({"train", "--config", "out/tune/tuned.json", "training.max_steps=2"}), 0) << w.says();
  EXPECT_EQ(rows(w / "out/log.jsonl").back()["step"], 2);
}

TEST(Tune, SeveralRanksAreLaunched) {
  const Workplace w("llama", kSmall);
  ASSERT_EQ(w.run(tuning({"--trials", "1", "distributed.nproc_per_node=2", "zero_stage=3",
                          "zero_optimization.reduce_bucket_size=5e8", "training.gradient_checkpointing=false",
                          "training.per_device_train_batch_size=1"})),
            0)
      << w.says();
  EXPECT_NE(contents(w / "stdout").find("run      ft launch train --config out/tune/tuned.json"),
            std::string::npos)
      << contents(w / "stdout");
  const Json tuned = Json::parse(contents(w / "out/tune/tuned.json"));
  EXPECT_EQ(tuned["distributed"]["nproc_per_node"], 2);
  EXPECT_EQ(tuned["zero_optimization"]["stage"], 3);
}

TEST(Tune, DeepSpeedsFileIsWhereItStarts) {
  const Workplace w("llama", {{"training", {{"per_device_train_batch_size", nullptr}}}});
  std::ofstream(w / "ds.json") << R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
                                      "zero_optimization": {"stage": 2}})";
  ASSERT_EQ(w.run(tuning({"--deepspeed", "ds.json", "--trials", "1", "distributed.nproc_per_node=1"})), 0)
      << w.says();
  EXPECT_NE(contents(w / "stdout").find("2 x 4"), std::string::npos) << contents(w / "stdout");
  ASSERT_EQ(w.run({"validate", "--config", "out/tune/tuned.json"}), 0) << w.says();
}

TEST(Tune, NothingIsMeasuredTwice) {
  const Workplace w("llama", kSmall);
  ASSERT_EQ(w.run(tuning({"--trials", "2"})), 0) << w.says();
  const std::string before = contents(w / "out/tune/trials.jsonl");
  EXPECT_EQ(rows(w / "out/tune/trials.jsonl").size(), 2u);
  ASSERT_EQ(w.run(tuning({"--trials", "2"})), 0) << w.says();
  EXPECT_EQ(contents(w / "out/tune/trials.jsonl"), before);
  ASSERT_EQ(w.run(tuning({"--trials", "all"})), 0) << w.says();
  EXPECT_TRUE(contents(w / "out/tune/trials.jsonl").starts_with(before));
  EXPECT_EQ(rows(w / "out/tune/trials.jsonl").size(), 4u);
  ASSERT_EQ(w.run(tuning({"--trials", "all", "lora.r=4"})), 0) << w.says();
  EXPECT_EQ(rows(w / "out/tune/trials.jsonl").size(), 8u) << "other settings are measured anew";
}

TEST(Tune, AStoppedSearchKeepsItsMeasurements) {
  Json slow = kSmall;  // at most a minute for each trial
  slow["training"]["per_device_train_batch_size"] = 32;
  slow["training"]["gradient_accumulation_steps"] = 64;
  slow["tune"]["space"]["training.per_device_train_batch_size"] = {8, 16, 32};
  const Workplace w("llama", slow);
  const pid_t pid = w.start(tuning({"--trials", "all"}));
  EXPECT_TRUE(comes_to_hold(240, [&] { return !contents(w / "out/tune/trials.jsonl").empty(); }));
  kill(pid, SIGINT);
  EXPECT_EQ(Workplace::finish(pid), 75) << w.says();
  EXPECT_FALSE(fs::exists(w / "out/tune/trial"));
  const std::size_t kept = rows(w / "out/tune/trials.jsonl").size();
  EXPECT_GE(kept, 1u);
  EXPECT_LT(kept, 6u);
  EXPECT_TRUE(fs::exists(w / "out/tune/tuned.json"));
  EXPECT_NE(contents(w / "stdout").find("stopped; the same command continues from here"), std::string::npos);
}

TEST(Tune, KilledItGoesOn) {
  const Workplace w("llama", kSmall);
  const pid_t pid = w.start(tuning({"--trials", "all"}));
  EXPECT_TRUE(comes_to_hold(240, [&] { return !contents(w / "out/tune/trials.jsonl").empty(); }));
  kill(pid, SIGKILL);
  Workplace::finish(pid);
  const std::string before = contents(w / "out/tune/trials.jsonl");
  ASSERT_EQ(w.run(tuning({"--trials", "all"})), 0) << w.says();
  EXPECT_TRUE(contents(w / "out/tune/trials.jsonl").starts_with(before));
  EXPECT_EQ(rows(w / "out/tune/trials.jsonl").size(), 4u);
  EXPECT_FALSE(fs::exists(w / "out/tune/trial"));
}

TEST(Tune, MemoryIsKnownFromThePlan) {
  const Workplace w("llama", kSmall);
  ASSERT_EQ(w.run(tuning({"--metric", "memory", "--json"})), 0) << w.says();
  const Json out = Json::parse(contents(w / "stdout"));
  const auto planned = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> plan{"plan", "--json", "--config"};
    plan.insert(plan.end(), overrides.begin(), overrides.end());
    EXPECT_EQ(w.run(plan), 0) << w.says();
    return Json::parse(contents(w / "stdout"))["total"].get<double>();
  };
  const double least = planned({"run.json", "training.per_device_train_batch_size=1"});
  EXPECT_EQ(planned({"out/tune/tuned.json"}), out["best"]["memory"]);
  EXPECT_LE(out["best"]["memory"], 1.02 * least);
}

TEST(Tune, ImpossibleSettingsAreReportedOnce) {
  const Workplace w("llama", kSmall);
  std::ofstream(w / "broken.jsonl") << "no JSON\n";
  EXPECT_EQ(w.run(tuning({"data.datasets[0].path=broken.jsonl"})), 3);
  EXPECT_FALSE(fs::exists(w / "out"));
  EXPECT_EQ(w.run(tuning({"--trials", "some"})), 2);
  EXPECT_EQ(w.run(tuning({"--metric", "beauty"})), 2);
  EXPECT_EQ(w.run(tuning({"training.learning_rate=1e30"})), 7) << "the first trial's own exit code";
  EXPECT_NE(w.says().find("the first trial failed, exit 7: "), std::string::npos) << w.says();
  EXPECT_NE(w.says().find("trial.log"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
