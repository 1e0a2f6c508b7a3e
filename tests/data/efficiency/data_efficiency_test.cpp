// Data efficiency: schedules against DeepSpeed's (tests/golden/data_efficiency.json), the remaining tokens of
// a batch that is cut, and the cut of each step.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/batches/batcher.h"
#include "data/efficiency/batches.h"
#include "data/efficiency/schedule.h"
#include "engine/files/json.h"
#include "engine/settings/fields.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const char* const kFile = "tests/golden/data_efficiency.json";

template <class Config>
Config config_of(const Json& row) {
  Config config;
  SettingsText text = parse_settings(row.dump(), "golden");
  return read_settings<Config>(text, "");
}

TEST(CurriculumSchedule, EqualsDeepSpeed) {
  const Json golden = read_json(source_path(kFile));
  ASSERT_GT(golden["curriculum"].size(), 12u);
  for (Json row : golden["curriculum"]) {
    const Json want = row["difficulties"];
    row.erase("difficulties");
    const auto config = config_of<CurriculumMetricConfig>(row);
    for (std::size_t n = 1; n <= want.size(); ++n)
      EXPECT_EQ(difficulty_at(config, static_cast<std::int64_t>(n)), want[n - 1].get<std::int64_t>())
          << row << " step " << n;
  }
}

TEST(RandomLtdSchedule, EqualsDeepSpeed) {
  const Json golden = read_json(source_path(kFile));
  ASSERT_GT(golden["random_ltd"].size(), 4u);
  for (Json row : golden["random_ltd"]) {
    const Json want = row["kept"];
    row.erase("kept");
    const auto config = config_of<RandomLtdScheduleConfig>(row);
    for (std::size_t n = 1; n <= want.size(); ++n)
      EXPECT_EQ(kept_tokens_at(config, static_cast<std::int64_t>(n)), want[n - 1].get<std::int64_t>())
          << row << " step " << n;
  }
}

CurriculumMetricConfig linear(std::int64_t low, std::int64_t high, std::int64_t steps, std::int64_t unit) {
  CurriculumMetricConfig m{
      .min_difficulty = low, .max_difficulty = high, .schedule_type = CurriculumSchedule::fixed_linear};
  m.schedule_config.total_curriculum_step = steps;
  m.schedule_config.difficulty_step = unit;
  return m;
}

TEST(CurriculumSchedule, AcceptsTheLargestStep) {
  EXPECT_EQ(difficulty_at(linear(1, 1 << 30, 1, 1), INT64_MAX), 1 << 30);
}

// Returns two sequences of 5 and 3 tokens; every token except a sequence's first is a target.
Batch two() {
  return {.input_ids = {10, 11, 12, 13, 14, 20, 21, 22},
          .positions = {0, 1, 2, 3, 4, 0, 1, 2},
          .starts = {0, 5, 8},
          .target_rows = {0, 1, 2, 3, 5, 6},
          .targets = {11, 12, 13, 14, 21, 22}};
}

TEST(Truncated, KeepsTheFirstTokens) {
  const Batch b = truncated(two(), 3);
  EXPECT_EQ(b.input_ids, (std::vector{10, 11, 12, 20, 21, 22}));
  EXPECT_EQ(b.positions, (std::vector{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(b.starts, (std::vector{0, 3, 6}));
  EXPECT_EQ(b.target_rows, (std::vector{0, 1, 3, 4}));
  EXPECT_EQ(b.targets, (std::vector{11, 12, 21, 22}));
}

TEST(Truncated, SingleTokensHaveNothingToPredict) {
  const Batch b = truncated(two(), 1);
  EXPECT_EQ(b.input_ids, (std::vector{10, 20}));
  EXPECT_TRUE(b.targets.empty());
}

TEST(Truncated, CutsSourcesAndTargets) {
  Batch b = two();
  b.target_rows = {0, 1, 2, 3, 4, 5, 6, 7};
  b.targets = {11, 12, 13, 14, 1, 21, 22, 1};
  b.source_ids = {30, 31, 32, 40};
  b.source_starts = {0, 3, 4};
  b = truncated(b, 2);
  EXPECT_EQ(b.source_ids, (std::vector{30, 31, 40}));
  EXPECT_EQ(b.source_starts, (std::vector{0, 2, 3}));
  EXPECT_EQ(b.input_ids, (std::vector{10, 11, 20, 21}));
  EXPECT_EQ(b.target_rows, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(b.targets, (std::vector{11, 12, 21, 22}));
}

TEST(Reshaped, MakesSequencesOfThePieces) {
  const Batch b = reshaped(two(), 2);
  EXPECT_EQ(b.input_ids, two().input_ids);
  EXPECT_EQ(b.positions, (std::vector{0, 1, 0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(b.starts, (std::vector{0, 2, 4, 5, 7, 8}));
  EXPECT_EQ(b.target_rows, (std::vector{0, 2, 5}));
  EXPECT_EQ(b.targets, (std::vector{11, 13, 21}));
}

TEST(Reshaped, LeavesShortSequences) { EXPECT_EQ(reshaped(two(), 5).starts, two().starts); }

Batcher batches_of(std::int64_t samples, std::int64_t length) {
  auto store = std::make_shared<SampleStore>();
  store->start_file("made.jsonl");
  std::vector<std::int64_t> rows(static_cast<std::size_t>(samples));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
  std::iota(ids.begin(), ids.end(), 3);
  for (std::int64_t i = 0; i < samples; ++i) store->add({ids, ids}, i + 1);
  return Batcher({store, rows}, {.batch_size = 2, .shuffle = true});
}

DataEfficiencyConfig by_length(const CurriculumMetricConfig& metric) {
  DataEfficiencyConfig c{.enabled = true};
  c.data_sampling.enabled = c.data_sampling.curriculum_learning.enabled = true;
  c.data_sampling.curriculum_learning.curriculum_metrics.seqlen = metric;
  return c;
}

// A pass has 7 micro-batches and a step has 2, so steps 1 to 4 are the first pass.
TEST(EfficientBatches, GoByTheStepsOfTheRun) {
  const Batcher whole = batches_of(14, 40);
  const EfficientBatches b(whole, by_length(linear(8, 64, 8, 8)), 2);
  EXPECT_EQ(b.batches_per_epoch(), 7);
  for (const auto& [epoch, i, length] :
       {std::tuple{0, 0, 8}, {0, 1, 8}, {0, 2, 16}, {0, 6, 32}, {1, 0, 40}, {1, 6, 40}}) {
    EXPECT_EQ(b.batch(epoch, i).starts, (std::vector{0, length, 2 * length})) << epoch << " " << i;
    const BatchShape shape = b.shape(epoch, i);
    EXPECT_EQ(shape.tokens, 2 * length);
    EXPECT_EQ(shape.targets, 2 * (length - 1));
    EXPECT_EQ(shape.sequences, 2);
    EXPECT_EQ(shape.longest, length);
  }
  using Rows = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(b.schedules(5), (Rows{{"curriculum/difficulty", 40}}));
}

DataEfficiencyConfig dropping(std::int64_t low, std::int64_t high) {
  DataEfficiencyConfig c{.enabled = true};
  c.data_routing.enabled = c.data_routing.random_ltd.enabled = true;
  RandomLtdScheduleConfig& s = c.data_routing.random_ltd.random_ltd_schedule;
  s.min_value = low;
  s.max_value = high;
  s.schedule_config = {.require_steps = 8, .seq_per_step = 8};
  return c;
}

TEST(EfficientBatches, HaveTheTokensThatRandomLtdKeeps) {
  const Batcher whole = batches_of(14, 40);
  const EfficientBatches b(whole, dropping(16, 64), 1);
  EXPECT_EQ(b.batch(0, 0).kept_starts, (std::vector{0, 16, 32}));
  EXPECT_EQ(b.batch(0, 2).kept_starts, (std::vector{0, 24, 48}));
  EXPECT_EQ(b.shape(0, 2).kept, 48);
  EXPECT_EQ(b.shape(0, 2).kept_source, 0);
  EXPECT_EQ(b.batch(0, 2).tokens(), 80) << "the batch is whole";
  EXPECT_TRUE(b.batch(0, 4).kept_starts.empty()) << "40 of 40: nothing is dropped";
  EXPECT_EQ(b.shape(1, 0).kept, 0);
}

// Shapes of the largest batch that drops tokens, and of the largest that does not.
TEST(EfficientBatches, AreLargestInTwoWays) {
  const Batcher whole = batches_of(14, 40);
  std::vector<std::int64_t> kept;
  for (const BatchShape& s : largest_shapes(EfficientBatches(whole, dropping(16, 64), 1), 1))
    kept.push_back(s.kept);
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept, (std::vector<std::int64_t>{0, 64}));
}

}  // namespace
}  // namespace ft
