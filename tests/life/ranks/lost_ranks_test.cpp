// Ranks that are killed, stopped or told to end: the run ends within seconds, whichever process is lost, and
// leaves no process behind.
#include <gtest/gtest.h>

#include <thread>

#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

bool gone(const std::vector<pid_t>& all) {
  return comes_to_hold(
      30, [&] { return std::all_of(all.begin(), all.end(), [](pid_t p) { return kill(p, 0) != 0; }); });
}

// Arguments of a run that would last for minutes.
std::vector<std::string> endless(int ranks, int stage) {
  return command(ranks, stage, 1, {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2"});
}

TEST(Ranks, AKilledOneEndsTheRunWithItsName) {
  for (const int stage : {0, 3}) {
    const Workplace w("llama", kLora);
    const pid_t launcher = w.start(endless(3, stage));
    ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
    const std::vector<pid_t> ranks = children(launcher);
    ASSERT_EQ(ranks.size(), 3u);
    const auto start = std::chrono::steady_clock::now();
    kill(ranks[1], SIGKILL);
    EXPECT_EQ(w.finish(launcher), 128 + SIGKILL);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_TRUE(gone(ranks));
    EXPECT_NE(w.says().find("rank 1 was killed by signal 9"), std::string::npos) << w.says();
    EXPECT_NE(w.says().find("[0] rank 1 on "), std::string::npos) << w.says();
  }
}

TEST(Ranks, AStuckOneIsNamedAtTheLimit) {
  const Workplace w("llama", kLora);
  auto run = endless(2, 2);
  run.emplace_back(kLostAfterSilence);
  const pid_t launcher = w.start(run);
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  const std::vector<pid_t> ranks = children(launcher);
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGSTOP);
  EXPECT_EQ(w.finish(launcher), 9) << w.says();
  EXPECT_TRUE(gone(ranks));
  EXPECT_NE(w.says().find(silent(ranks[1])), std::string::npos) << w.says();
}

// Two pairs of ranks; each pair shares layers or sequences. If any rank is killed or stopped, all four end,
// and the lost rank is named with the group in which the others waited for it.
class OnAnAxis : public testing::TestWithParam<std::string> {
 protected:
  // With many micro-batches in a step, most messages are sent within the groups.
  static std::vector<std::string> run() {
    return command(4, 1, 8,
                   {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2",
                    "distributed." + GetParam() + "_parallel_size=2"});
  }
  // An epoch with fewer micro-batches than a step would end the step early.
  static void repeat_data(const Workplace& w) {
    const std::string once = contents(w / "train.jsonl");
    std::ofstream out(w / "train.jsonl", std::ios::app);
    for (int i = 0; i < 20; ++i) out << once;
  }
};

TEST_P(OnAnAxis, AKilledOneEndsTheRunWithItsName) {
  for (const std::size_t victim : {1u, 2u}) {
    const Workplace w("llama", kFull);
    const pid_t launcher = w.start(run());
    ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
    const std::vector<pid_t> ranks = children(launcher);
    ASSERT_EQ(ranks.size(), 4u);
    kill(ranks[victim], SIGKILL);
    EXPECT_EQ(w.finish(launcher), 128 + SIGKILL) << w.says();
    EXPECT_TRUE(gone(ranks));
    EXPECT_NE(w.says().find(str("rank ", victim, " was killed by signal 9")), std::string::npos) << w.says();
    EXPECT_NE(w.says().find(str("[0] rank ", victim, " on ")), std::string::npos) << w.says();
  }
}

// The message says how long the rank has been stuck and where the others are; most of a step's time is in
// some group.
TEST_P(OnAnAxis, AStuckOneIsNamedWithItsGroup) {
  std::string said;
  for (const int ms : {30, 5, 60, 15, 100}) {
    if (said.find(" group of ranks ") != std::string::npos) break;
    const Workplace w("llama", kFull);
    repeat_data(w);
    auto words = run();
    words.emplace_back(kLostAfterSilence);
    const pid_t launcher = w.start(words);
    ASSERT_TRUE(w.wait_for_rows(1)) << w.says();
    const std::vector<pid_t> ranks = children(launcher);
    ASSERT_EQ(ranks.size(), 4u);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));  // a row is written at a step's end
    kill(ranks[3], SIGSTOP);
    EXPECT_EQ(w.finish(launcher), 9) << w.says();
    EXPECT_TRUE(gone(ranks));
    said = w.says();
    EXPECT_NE(said.find(silent(ranks[3])), std::string::npos) << said;
  }
  EXPECT_TRUE(said.find(GetParam() + " group of ranks ") != std::string::npos ||
              said.find("data group of ranks ") != std::string::npos)
      << said;
}

INSTANTIATE_TEST_SUITE_P(Axes, OnAnAxis, testing::Values("tensor", "sequence"),
                         [](const auto& test) { return test.param; });

// A rank that is stopped for a while is named during that time, and the run goes on.
TEST(Ranks, AStoppedOneIsNamedAndGoesOn) {
  const Workplace w("llama", kLora);
  const pid_t launcher = w.start(endless(3, 2));
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  const pid_t rank = children(launcher).at(1);
  kill(rank, SIGSTOP);
  const std::string named = "(process " + std::to_string(rank) + ") ";
  EXPECT_TRUE(w.wait_for_words(named + "has kept the others waiting for ")) << w.says();
  EXPECT_TRUE(w.wait_for_words("its process is stopped, or its machine hangs")) << w.says();
  kill(rank, SIGCONT);
  EXPECT_TRUE(w.wait_for_words(named + "continues after ")) << w.says();
  kill(launcher, SIGTERM);
  EXPECT_EQ(w.finish(launcher), 75) << w.says();
}

TEST(Ranks, NoRankOutlivesTheLauncher) {
  const Workplace w("llama", kLora);
  const pid_t launcher = w.start(endless(3, 1));
  ASSERT_TRUE(w.wait_for_rows(2)) << w.says();
  const std::vector<pid_t> ranks = children(launcher);
  kill(launcher, SIGKILL);
  w.finish(launcher);
  EXPECT_TRUE(gone(ranks));
}

// Every rank writes its part of a checkpoint. If one is killed meanwhile, the previous checkpoint remains.
TEST(Ranks, KilledWhileSavingTheyLeaveACompleteCheckpoint) {
  for (int i = 0; i < 6; ++i) {
    const Workplace w("llama", kFull);
    auto run = endless(3, i % 4);
    run.insert(run.end(), {"checkpointing.save_strategy=steps", "checkpointing.save_steps=1",
                           "checkpointing.save_total_limit=2"});
    const pid_t launcher = w.start(run);
    ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
    const std::vector<pid_t> ranks = children(launcher);
    ASSERT_EQ(ranks.size(), 3u);
    std::this_thread::sleep_for(std::chrono::microseconds(1700 * i));
    kill(ranks[static_cast<std::size_t>(i % 3)], SIGKILL);
    EXPECT_EQ(w.finish(launcher), 128 + SIGKILL);
    EXPECT_TRUE(gone(ranks));
    EXPECT_EQ(w.run({"checkpoint", "verify", "out"}), 0) << w.says();
    EXPECT_EQ(w.run(command(3, (i + 1) % 4, 1,
                            {"training.resume_from_checkpoint=true", "training.num_train_epochs=100000",
                             "checkpointing.save_total_limit=2",
                             "training.max_steps=" + std::to_string(losses(w / "out").size() + 2)})),
              0)
        << w.says();
  }
}

TEST(Ranks, ASignalSavesOnceAndGoesOn) {
  const Workplace w("llama", kLora);
  const pid_t launcher = w.start(endless(2, 3));
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  kill(launcher, SIGTERM);
  EXPECT_EQ(w.finish(launcher), 75) << w.says();
  const auto saved = losses(w / "out").size();
  EXPECT_EQ(w.run(command(
                2, 0, 1,
                {"training.resume_from_checkpoint=true", "training.max_steps=" + std::to_string(saved + 2)})),
            0)
      << w.says();
  EXPECT_EQ(losses(w / "out").size(), saved + 2);
}

}  // namespace
}  // namespace ft::test
