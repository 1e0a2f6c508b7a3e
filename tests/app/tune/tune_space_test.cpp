// The settings that ft tune varies: every combination once, the fixed settings, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "app/tune/space.h"
#include "engine/core/error.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

class Space : public testing::Test {
 protected:
  TuneSpace read(const std::string& more = "", const std::vector<std::string>& overrides = {},
                 int cores = 2) {
    std::ofstream(folder_ / "run.json") << R"({"model": {"model_name_or_path": "m"},
"data": {"datasets": [{"path": "d.jsonl"}]},
"training": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2})" +
                                               more + "}";
    return read_tune_space(folder_ / "run.json", overrides, cores);
  }
  std::string mistake(const std::string& more, const std::vector<std::string>& overrides = {}) {
    try {
      read(more, overrides);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::config);
      const std::string what = e.what();
      const std::size_t at = what.find("run.json");
      return at == what.npos ? what : what.substr(at);
    }
    return "no mistake";
  }
  test::TempFolder folder_;
};

const std::string kOnly = R"(, "tune": {"space": {"training.gradient_checkpointing": [true],
"zero_optimization.overlap_comm": [true], "zero_optimization.reduce_bucket_size": [5e8],
"zero_optimization.stage3_prefetch_bucket_size": [5e7]}})";

TEST_F(Space, TheSequencesOfAStepStayTheSame) {
  const TuneSpace space = read(kOnly);
  for (const TunePoint& p : space.points) {
    const TrainingConfig& t = p.config.training;
    const std::int64_t ranks = p.config.distributed.nproc_per_node.value_or(1);
    EXPECT_EQ(t.per_device_train_batch_size * t.gradient_accumulation_steps * ranks, 8);
  }
  EXPECT_EQ(space.refused, 0);
}

TEST_F(Space, EachCombinationOnceAndOnlyWithSettingsThatHaveAnEffect) {
  const TuneSpace space = read();
  // With one rank: 4 micro-batches x 3 recomputations. With two: 3 micro-batches x 3 recomputations x 2
  // buckets x (3 stages x 2 overlaps, and stage 3 without overlap or with overlap and one of 4 prefetches).
  EXPECT_EQ(space.points.size(), 12u + 3 * 3 * 2 * (3 * 2 + 1 + 4));
  std::set<std::string> seen;
  for (const TunePoint& p : space.points) {
    RunConfig c = p.config;
    EXPECT_TRUE(seen.insert(effective_config(c)).second);
    if (p.values[0] == "1") {
      EXPECT_EQ(p.values[1], "");
      EXPECT_EQ(c.zero_optimization.stage, 0);
    }
  }
}

TEST_F(Space, StartsAtTheConfiguredPoint) {
  const std::vector<std::string> alone{"distributed.nproc_per_node=1"};
  const TuneSpace space = read("", alone);
  ASSERT_TRUE(space.start);
  const TunePoint& start = space.points[*space.start];
  EXPECT_EQ(start.values, (std::vector<std::string>{"", "4 x 2", "true", "", "", ""}));
  EXPECT_TRUE(read(R"(, "zero_stage": 2)", alone).start) << "alone all stages are one";
  const TuneSpace elsewhere =
      read(R"(, "tune": {"space": {"training.gradient_checkpointing": [false]}})", alone);
  EXPECT_FALSE(elsewhere.start);
}

TEST_F(Space, ConfiguredValuesAreIncluded) {
  const TuneSpace space = read(R"(, "distributed": {"nproc_per_node": 2}, "zero_optimization":
{"stage": 3, "reduce_bucket_size": 12345, "stage3_prefetch_bucket_size": 777})",
                               {"training.per_device_train_batch_size=4"});
  ASSERT_TRUE(space.start);
  const ZeroConfig& z = space.points[*space.start].config.zero_optimization;
  EXPECT_EQ(z.stage, 3);
  EXPECT_EQ(z.reduce_bucket_size, 12345);
  EXPECT_EQ(z.stage3_prefetch_bucket_size, 777);
  EXPECT_EQ(space.refused, 0) << "without overlap there is no prefetch to contradict it";
}

TEST_F(Space, OverridesAreNotVaried) {
  const TuneSpace space = read(kOnly, {"zero_stage=2", "training.per_device_train_batch_size=2"});
  EXPECT_EQ(space.points.size(), 2u);  // the numbers of ranks
  for (const TunePoint& p : space.points) {
    EXPECT_EQ(p.config.zero_optimization.stage, 2);
    EXPECT_EQ(p.config.training.per_device_train_batch_size, 2);
  }
  const TuneSpace accumulated =
      read(kOnly, {"training.gradient_accumulation_steps=4", "distributed.nproc_per_node=1"});
  ASSERT_EQ(accumulated.points.size(), 1u);
  EXPECT_EQ(accumulated.points[0].config.training.gradient_accumulation_steps, 4);
}

TEST_F(Space, AnySettingCanBeAdded) {
  const TuneSpace space = read(
      R"(, "tune": {"space": {"data.packing": [false, true], "zero_stage": [1],
"training.gradient_checkpointing": [true]}})",
      {"distributed.nproc_per_node=1"});
  EXPECT_EQ(space.points.size(), 2u * 4);
  EXPECT_EQ(space.dimensions.back().label, "packing");
  EXPECT_TRUE(space.points.back().config.data.packing);
}

// If the configuration offloads optimizer states to files, half of the points keep them in memory.
TEST_F(Space, OffloadedStatesMayStayInMemory) {
  const TuneSpace space =
      read(R"(, "zero_optimization": {"offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"}})",
           {"distributed.nproc_per_node=1", "training.gradient_checkpointing=true"});
  EXPECT_EQ(space.points.size(), 2u * 4);
  EXPECT_EQ(space.refused, 0);
  std::int64_t in_files = 0;
  for (const TunePoint& p : space.points) {
    const OffloadConfig& o = p.config.zero_optimization.offload_optimizer;
    EXPECT_EQ(o.nvme_path.has_value(), o.device == OffloadDevice::nvme);
    in_files += o.device == OffloadDevice::nvme;
  }
  EXPECT_EQ(in_files, 4);
  EXPECT_TRUE(space.start);
}

TEST_F(Space, OnAGpuTheRanksStay) {
  const TuneSpace space = read(R"(, "device": "cuda", "distributed": {"nproc_per_node": 2})",
                               {"training.gradient_checkpointing=true"});
  for (const TunePoint& p : space.points) EXPECT_EQ(p.config.distributed.nproc_per_node, 2);
}

TEST_F(Space, CombinationsThatContradictThemselvesAreLeftOut) {
  const TuneSpace space = read(R"(, "tune": {"space": {"distributed.nproc_per_node": [2, 4],
"zero_optimization.stage": [1], "training.gradient_checkpointing": [true],
"zero_optimization.mics_shard_size": [-1, 4]}})");
  EXPECT_GT(space.refused, 0);
  for (const TunePoint& p : space.points)
    EXPECT_TRUE(p.config.distributed.nproc_per_node == 4 || p.config.zero_optimization.mics_shard_size == -1);
}

TEST_F(Space, Refuses) {
  const auto space = [](const std::string& text) { return R"(, "tune": {"space": )" + text + "}"; };
  EXPECT_EQ(mistake(space("[1]")), "run.json:3: tune.space: expected {\"section.setting\": [values]}");
  EXPECT_EQ(mistake(space(R"({"zero_stage": 3})")),
            "run.json:3: tune.space.zero_stage: expected a list of values [...]");
  EXPECT_EQ(mistake(space(R"({"training.gradient_accumulation_steps": [1]})")),
            "run.json:3: tune.space.training.gradient_accumulation_steps: follows from the micro-batch; vary "
            "training.per_device_train_batch_size instead");
  EXPECT_EQ(mistake(space(R"({"training.output_dir": ["a"]})")),
            "run.json:3: tune.space.training.output_dir: is not a setting of a trial");
  EXPECT_NE(mistake(space(R"({"zero_stag": [1]})")).find("zero_stag: no such setting"), std::string::npos);
  EXPECT_NE(mistake(space(R"({"zero_stage": [0, 7]})")).find("7 is out of range"), std::string::npos);
  EXPECT_NE(
      mistake(space(R"({"training.per_device_train_batch_size": [3]})")).find("with 8 sequences per step"),
      std::string::npos);
  EXPECT_NE(mistake(R"(, "distributed": {"nnodes": 2})").find("trials use one machine"), std::string::npos);
  std::string many = "[0";
  for (int i = 1; i < 100; ++i) many += "," + std::to_string(i);
  EXPECT_NE(mistake(space(R"({"training.seed": )" + many + "]}")).find("more than 20000 combinations"),
            std::string::npos);
}

}  // namespace
}  // namespace ft
