// A curriculum that chooses samples: their difficulty and the samples that are easy enough for a step,
// against DeepSpeed (tests/golden/data_efficiency.json); how a step draws from them; and epochs requested in
// any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "data/batches/batcher.h"
#include "data/efficiency/sampler.h"
#include "engine/core/error.h"
#include "engine/files/json.h"
#include "engine/settings/fields.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using Ids = std::vector<std::int32_t>;
using Samples = std::vector<std::int64_t>;

Dataset dataset(const std::vector<Ids>& inputs, const std::vector<Ids>& labels, bool pairs = false) {
  auto store = std::make_shared<SampleStore>(pairs);
  store->start_file("made.jsonl");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    store->add({inputs[i], labels[i]}, static_cast<std::int64_t>(i) + 1);
  Samples rows(inputs.size());
  std::iota(rows.begin(), rows.end(), 0);
  return {store, rows};
}

Json golden() { return read_json(source_path("tests/golden/data_efficiency.json")); }
Dataset golden_samples() {
  const auto ids = golden()["samples"].get<std::vector<Ids>>();
  return dataset(ids, ids);
}

TEST(Difficulty, IsThatOfDeepSpeedsAnalysis) {
  const Json want = golden()["values"];
  const Dataset data = golden_samples();
  EXPECT_EQ(sequence_lengths(data), want["seqlen"].get<Samples>());
  EXPECT_EQ(vocabulary_rarity(data), want["vocabularyrarity"].get<Samples>());
}

// Four of the eight tokens are 5, with -ln(1/2) = 0.69 each; the others have -ln(1/8) = 2.08.
TEST(Difficulty, CountsSourcesAndTargets) {
  const Dataset pairs = dataset({{5, 5, 6}, {5}}, {{7, kIgnored}, {5, 8, 9}}, true);
  EXPECT_EQ(sequence_lengths(pairs), (Samples{3, 3}));
  EXPECT_EQ(vocabulary_rarity(pairs), (Samples{5, 5}));
}

CurriculumMetrics metrics_of(const Json& row) {
  SettingsText text = parse_settings(row.dump(), "golden");
  return read_settings<CurriculumMetrics>(text, "");
}

// The samples of a step are among those that DeepSpeed finds easy enough, and in the end include all of them.
TEST(CurriculumSampler, ChoosesAmongDeepSpeedsSamples) {
  const Json all = golden();
  const Dataset data = golden_samples();
  ASSERT_GT(all["choices"].size(), 6u);
  for (const Json& row : all["choices"]) {
    const Json& clusters = row["samples"];
    CurriculumSampler sampler(difficulties(metrics_of(row["metrics"]), data), 4, 7);
    std::set<std::int64_t> seen, easy;
    std::int64_t step = 0;
    std::size_t next = 0;
    for (std::int64_t epoch = 0; epoch < 60; ++epoch) {
      const Samples order = sampler.order(epoch);
      ASSERT_EQ(order.size(), 37u);
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (i % 4 == 0) ++step;
        if (next < clusters.size() && clusters[next][0] == step)
          easy = clusters[next++][1].get<decltype(easy)>();
        EXPECT_TRUE(easy.contains(order[i])) << row["metrics"] << " step " << step << " sample " << order[i];
        seen.insert(order[i]);
      }
    }
    EXPECT_EQ(next, clusters.size());
    EXPECT_EQ(seen, easy) << row["metrics"];
  }
}

CurriculumMetricConfig two_steps() {
  CurriculumMetricConfig m{.clustering_type = ClusteringType::schedule_based,
                           .min_difficulty = 1,
                           .max_difficulty = 2,
                           .schedule_type = CurriculumSchedule::fixed_discrete};
  m.schedule_config.difficulty = {1, 2};
  m.schedule_config.max_step = {1};
  return m;
}

// A sampler of 30 samples of difficulty 1 and 10 of difficulty 2, with 20 samples in a step.
CurriculumSampler sampler_of_two(std::uint64_t seed = 3) {
  Samples values(40, 1);
  std::fill(values.begin() + 30, values.end(), 2);
  return {{Difficulty("seqlen", two_steps(), values)}, 20, seed};
}

// No sample of a cluster is drawn again before all have been drawn, and clusters are drawn in proportion to
// their sizes.
TEST(CurriculumSampler, GoesThroughItsClusters) {
  CurriculumSampler sampler = sampler_of_two();
  std::map<std::int64_t, int> times;
  int second = 0, all = 0;
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    const Samples order = sampler.order(epoch);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool first_step = epoch == 0 && i < 20;
      EXPECT_FALSE(first_step && order[i] >= 30);
      ++times[order[i]];
      second += order[i] >= 30;
      all += !first_step;
    }
    for (const auto& [begin, end] : {std::pair{0, 30}, {30, 40}}) {
      int least = 1 << 30, most = 0;
      for (int s = begin; s < end; ++s) {
        least = std::min(least, times[s]);
        most = std::max(most, times[s]);
      }
      EXPECT_LE(most - least, 1) << epoch;
    }
  }
  EXPECT_NEAR(static_cast<double>(second) / all, 0.25, 0.03);  // four standard deviations
}

TEST(CurriculumSampler, IsAFunctionOfTheEpoch) {
  CurriculumSampler forwards = sampler_of_two(), backwards = sampler_of_two(), other = sampler_of_two(4);
  std::vector<Samples> want;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) want.push_back(forwards.order(epoch));
  for (const std::int64_t epoch : {4, 2, 3, 0})
    EXPECT_EQ(backwards.order(epoch), want[static_cast<std::size_t>(epoch)]);
  EXPECT_NE(other.order(0), want[0]);
  EXPECT_NE(want[1], want[2]);
}

TEST(CurriculumSampler, NeedsSomethingToBeginWith) {
  const auto refusal = [](const CurriculumMetricConfig& m, const Samples& values) -> std::string {
    try {
      CurriculumSampler({Difficulty("seqlen", m, values)}, 4, 1);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::config);
      return e.what();
    }
    return "";
  };
  EXPECT_NE(refusal(two_steps(), {4, 3, 9}).find("seqlen: step 1 allows 1, and samples have 3 to 9"),
            std::string::npos);
  CurriculumMetricConfig halves = two_steps();
  halves.difficulty_type = DifficultyType::percentile;
  EXPECT_NE(refusal(halves, {4}).find("step 1 allows 0 of 1 samples, 1 of 2 percentiles"), std::string::npos);
  EXPECT_EQ(refusal(halves, {4, 5}), "");
}

// Micro-batches consist of the chosen samples, in their order, even if the data is not shuffled.
TEST(CurriculumSampler, MakesTheBatches) {
  std::vector<Ids> ids;
  for (std::int32_t i = 0; i < 5; ++i) ids.push_back({i, i});
  const auto chosen = [](std::int64_t epoch) { return Samples{4, 4, epoch, 1, 2}; };
  const Batcher b(dataset(ids, ids), {.batch_size = 2, .chosen = chosen});
  EXPECT_EQ(b.batches_per_epoch(), 3);
  EXPECT_EQ(b.batch(0, 0).input_ids, (Ids{4, 4, 4, 4}));
  EXPECT_EQ(b.batch(3, 1).input_ids, (Ids{3, 3, 1, 1}));
  EXPECT_EQ(b.batch(3, 2).input_ids, (Ids{2, 2}));
}

}  // namespace
}  // namespace ft
