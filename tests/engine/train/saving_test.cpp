// Checkpoints that are written beside training have the same bytes as those that training waits for, and
// training has the same bits, in every stage and on several ranks. Every end of a run waits for the writing.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "engine/files/checkpoint_folder.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/engine/train/guarded_run.h"

namespace ft::test {
namespace {

namespace fs = std::filesystem;

// All files below a folder.
std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      all[fs::relative(entry.path(), folder).string()] = slurp(entry.path().string());
  return all;
}

void expect_no_error(const RanAll& all) {
  for (const Said& error : all.errors) EXPECT_EQ(error.what, "");
}

// Runs twice, saving beside training the second time, and expects the same bits of everything.
void expect_the_bytes_of_waiting(GuardedRun run) {
  const TempFolder waiting, beside;
  run.save_steps = 1;
  run.output = waiting.path();
  const RanAll usual = run_all(run);
  expect_no_error(usual);
  run.output = beside.path();
  run.beside = true;
  const RanAll got = run_all(run);
  expect_no_error(got);
  EXPECT_EQ(list_checkpoints(beside.path()).size(), 6u);
  EXPECT_TRUE(files_in(beside.path()) == files_in(waiting.path()));
  for (std::size_t r = 0; r < got.ranks.size(); ++r) {
    EXPECT_TRUE(got.ranks[r].weights == usual.ranks[r].weights);
    EXPECT_EQ(got.ranks[r].snapshot, got.ranks[0].snapshot);  // the plan of one rank is every rank's
  }
  ASSERT_EQ(got.ranks[0].heard.saves.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    const SavedRow& row = got.ranks[0].heard.saves[i];
    EXPECT_EQ(row.step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(row.folder, checkpoint_path(beside.path(), row.step));
    ASSERT_TRUE(row.waited.has_value());
    EXPECT_GT(*row.waited, 0);
    EXPECT_GT(row.seconds, 0);
    EXPECT_FALSE(usual.ranks[0].heard.saves[i].waited.has_value());
  }
}

class Beside : public testing::TestWithParam<std::tuple<int, int, Home>> {};

TEST_P(Beside, HasTheBytesOfWaiting) {
  const auto [ranks, stage, home] = GetParam();
  for (const DType dtype : {DType::f32, DType::bf16})
    expect_the_bytes_of_waiting({.ranks = ranks, .stage = stage, .home = home, .dtype = dtype});
}

INSTANTIATE_TEST_SUITE_P(Ranks, Beside,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(0, 1, 2, 3),
                                          testing::Values(Home::device, Home::host, Home::file)));

// States in 8 bits with their scales, one state alone, states of a matrix's rows and columns; on several
// ranks with a critic.
class BesideWith : public testing::TestWithParam<Optim> {};

TEST_P(BesideWith, HasTheBytesOfWaiting) {
  for (const auto& [ranks, stage] : {std::pair{1, 0}, {2, 1}, {2, 3}})
    expect_the_bytes_of_waiting({.ranks = ranks, .stage = stage, .optim = GetParam(), .critic = ranks > 1});
}

INSTANTIATE_TEST_SUITE_P(Optimizers, BesideWith,
                         testing::Values(&optimizers::kAdamW, &optimizers::kAdamW8bit, &optimizers::kLion,
                                         &optimizers::kLion8bit, &optimizers::kAdafactor, &optimizers::kMuon),
                         [](const auto& optim) { return name_of(optim.param); });

TEST(SavingBeside, KeepsTheNewest) {
  const TempFolder folder;
  expect_no_error(
      run_all({.ranks = 2, .stage = 2, .beside = true, .save_steps = 1, .keep = 2, .output = folder.path()}));
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(folder.entries(), 2u);
}

// An older checkpoint is removed when the log has the newer one, and before the next one is written.
TEST(Saving, ReportsBeforeItRemoves) {
  for (const bool beside : {false, true})
    for (const int ranks : {1, 2}) {
      const TempFolder folder;
      GuardedRun run{.ranks = ranks, .beside = beside, .save_steps = 1, .keep = 1, .output = folder.path()};
      std::vector<std::vector<std::int64_t>> there;
      run.saved = [&](const SavedRow&) { there.push_back(list_checkpoints(folder.path())); };
      expect_no_error(run_all(run));
      ASSERT_EQ(there.size(), 6u);
      for (std::int64_t i = 1; i < 6; ++i)
        EXPECT_EQ(there[static_cast<std::size_t>(i)], (std::vector<std::int64_t>{i, i + 1})) << beside;
      EXPECT_EQ(list_checkpoints(folder.path()), std::vector<std::int64_t>{6});
    }
}

TEST(SavingBeside, AStopWaitsForTheCheckpoint) {
  for (const int ranks : {1, 2}) {
    const TempFolder folder;
    GuardedRun run{.ranks = ranks, .beside = true, .save_steps = 100, .output = folder.path()};
    run.stop_asked = [] { return true; };
    const RanAll all = run_all(run);
    expect_no_error(all);
    EXPECT_EQ(all.ranks[0].ending, Ending::preempted);
    EXPECT_EQ(open_checkpoint(checkpoint_path(folder.path(), 1)).step, 1);
    EXPECT_EQ(all.ranks[0].heard.saves.size(), 1u);
  }
}

// The step after the checkpoint has a gradient that is not finite.
// A rank may hear of the other's end before it throws the same error.
TEST(SavingBeside, AnErrorOfAllRanksWaitsForTheCheckpoint) {
  for (const int ranks : {1, 2}) {
    const TempFolder folder;
    GuardedRun run{.ranks = ranks, .beside = true, .save_steps = 2, .output = folder.path()};
    run.meddle = [&](Sines& model, ParameterStore& store, std::int32_t id) {
      const Use use(store, 0, false);
      if (id >= 2 * ranks) model.parameters[0].value.as<float>()[3] = std::numeric_limits<float>::infinity();
    };
    int own = 0;
    for (const Said& error : run_all(run).errors)
      if (error.code != Exit::peer_lost) {
        ++own;
        EXPECT_EQ(error.code, Exit::numeric) << error.what;
      }
    EXPECT_GE(own, 1);
    EXPECT_EQ(open_checkpoint(checkpoint_path(folder.path(), 2)).step, 2);
    EXPECT_EQ(folder.entries(), 1u);
  }
}

// An error of one rank alone: its checkpoint is complete and reported, or absent without a trace.
TEST(SavingBeside, AnErrorOfOneRankLeavesNothingHalf) {
  for (const int ranks : {1, 2}) {
    const TempFolder folder;
    GuardedRun run{.ranks = ranks, .beside = true, .save_steps = 2, .output = folder.path()};
    run.meddle = [&](Sines&, ParameterStore&, std::int32_t id) {
      if (id == 2 * ranks) throw UserError(Exit::input, "a row is wrong");
    };
    const RanAll all = run_all(run);
    EXPECT_EQ(all.errors[0].code, Exit::input);
    const std::vector<std::int64_t> there = list_checkpoints(folder.path());
    EXPECT_EQ(folder.entries(), there.size());
    std::vector<std::int64_t> reported;
    for (const SavedRow& row : all.ranks[0].heard.saves) reported.push_back(row.step);
    EXPECT_EQ(reported, there);
    if (ranks == 1) {
      EXPECT_EQ(open_checkpoint(checkpoint_path(folder.path(), 2)).step, 2);
      EXPECT_EQ(there, std::vector<std::int64_t>{2});
    }
  }
}

// The folder goes away while it is filled, which the threads of all ranks find.
TEST(SavingBeside, AFailedWriteEndsTheRun) {
  for (const int ranks : {1, 2}) {
    const TempFolder folder;
    GuardedRun run{.ranks = ranks, .beside = true, .steps = 40, .save_steps = 2, .output = folder.path()};
    run.added = [](const std::string& to) { fs::remove_all(to); };
    const RanAll all = run_all(run);
    EXPECT_EQ(all.errors[0].code, Exit::storage) << all.errors[0].what;
    for (const Said& error : all.errors) EXPECT_NE(error.what, "");
    EXPECT_TRUE(list_checkpoints(folder.path()).empty());
    EXPECT_TRUE(all.ranks[0].heard.saves.empty());
  }
}

}  // namespace
}  // namespace ft::test
