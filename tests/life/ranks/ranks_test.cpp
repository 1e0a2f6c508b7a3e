// Runs with several ranks, tested from outside: the same training with any number of ranks in any ZeRO stage.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/ranks/ports.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(std::abs(got[i] - want[i]), bound * want[i]) << i;
}

class Stages : public testing::TestWithParam<std::tuple<Json, int, int>> {};

// Twenty steps: with a global batch of up to 96 samples that takes several epochs.
const std::vector<std::string> kTwenty = {"training.max_steps=20"};

// A single rank that accumulates more has the same global batch. With one micro-step all stages have the same
// bits. With several, sharded gradients add ranks first, and replicated ones micro-steps first.
TEST_P(Stages, TrainEqually) {
  const auto& [config, ranks, accumulation] = GetParam();
  const std::vector<double> one = result_of("llama", config, 1, 0, accumulation * ranks, kTwenty).losses;
  ASSERT_EQ(one.size(), 20u);
  std::vector<Result> stages;
  for (int stage = 0; stage < 4; ++stage)
    stages.push_back(result_of("llama", config, ranks, stage, accumulation, kTwenty));
  for (const Result& s : stages) expect_near(s.losses, one, 1e-6);
  EXPECT_EQ(stages[1].losses, stages[0].losses);
  EXPECT_EQ(stages[3].losses, stages[2].losses);
  EXPECT_TRUE(stages[1].weights == stages[0].weights);
  EXPECT_TRUE(stages[3].weights == stages[2].weights);
  if (accumulation == 1) {
    EXPECT_EQ(stages[2].losses, stages[0].losses);
    EXPECT_TRUE(stages[2].weights == stages[0].weights);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Stages,
                         testing::Combine(testing::Values(kLora, kFull), testing::Values(1, 2, 3),
                                          testing::Values(1, 4)));
INSTANTIATE_TEST_SUITE_P(Eight, Stages, testing::Values(std::tuple(kLora, 8, 1)));
INSTANTIATE_TEST_SUITE_P(DISABLED_More, Stages,
                         testing::Combine(testing::Values(kLora, kFull, kQlora, kFp8), testing::Values(4, 8),
                                          testing::Values(1, 4)));

// All stages have the same rounded gradients and send half the bytes.
TEST(Ranks, GradientsMayTravelIn16Bits) {
  for (const Json& config : {kLora, kFull})
    for (const std::string type : {"bf16", "fp16"}) {
      const auto want = result_of("llama", config, 2, 0, 1, kTwenty);
      std::vector<std::string> more = kTwenty;
      more.push_back("distributed.communication_data_type=" + type);
      if (type == "fp16") more.emplace_back("distributed.gradient_predivide_factor=4");
      const Result first = result_of("llama", config, 2, 0, 1, more);
      expect_near(first.losses, want.losses, 1e-2);
      EXPECT_NE(first.losses, want.losses);
      for (int stage = 1; stage < 4; ++stage) {
        const Result other = result_of("llama", config, 2, stage, 1, more);
        EXPECT_EQ(other.losses, first.losses) << type << stage;
        EXPECT_TRUE(other.weights == first.weights) << type << stage;
      }
    }
}

TEST(Ranks, GradientsIn16BitsArePlanned) {
  const Workplace w("llama", kFull);
  std::int64_t sent[2] = {};
  for (const bool narrow : {false, true}) {
    const std::vector<std::string> more = {
        str("distributed.communication_data_type=", narrow ? "bf16" : "fp32"), "training.max_steps=2",
        str("training.output_dir=out", narrow)};
    ASSERT_EQ(w.run(command(2, 0, 1, more)), 0) << w.says();
    sent[narrow] = rows(w / str("out", narrow, "/log.jsonl")).back().at("sent_per_step");
    std::vector<std::string> plan = {"plan", "--config", "run.json", "--json",
                                     "distributed.nproc_per_node=2"};
    plan.insert(plan.end(), more.begin(), more.end());
    ASSERT_EQ(w.run(plan), 0) << w.says();
    EXPECT_EQ(Json::parse(contents(w / "stdout")).at("sent_per_step"), sent[narrow]);
  }
  EXPECT_NEAR(static_cast<double>(sent[1]), 0.5 * static_cast<double>(sent[0]), 64);
}

TEST(Ranks, GradientsThatOverflowOnTheWayEndTheRun) {
  const Workplace w("llama", kFull);
  EXPECT_EQ(w.run(command(2, 1, 1,
                          {"distributed.communication_data_type=fp16",
                           "distributed.gradient_predivide_factor=1e-6", "training.max_steps=2"})),
            7)
      << w.says();
}

TEST(Ranks, RecomputationAndBf16ChangeNothingBetweenStages) {
  const std::vector<std::string> more = {"training.bf16=true", "training.gradient_checkpointing=true"};
  for (const Json& config : {kLora, kFull, kQlora, kFp8}) {
    const Result want = result_of("llama", config, 2, 0, 1, {"training.bf16=true"});
    for (int stage = 1; stage < 4; ++stage)
      EXPECT_TRUE(result_of("llama", config, 2, stage, 1, more).weights == want.weights) << stage;
  }
}

TEST(Ranks, LionIsBitwiseUnderEveryStage) {
  const std::vector<std::string> lion = {"training.optim=lion"};
  for (const int ranks : {2, 3}) {
    const Result want = result_of("llama", kFull, ranks, 0, 1, lion);
    for (int stage = 1; stage < 4; ++stage)
      EXPECT_TRUE(result_of("llama", kFull, ranks, stage, 1, lion).weights == want.weights) << stage;
  }
}

// Prefetching, persistent parameters and overlap change no bit.
TEST(Ranks, OverlapChangesNothing) {
  const std::string z = "zero_optimization.";
  const std::vector<std::vector<std::string>> settings = {{z + "stage3_prefetch_bucket_size=0"},
                                                          {z + "stage3_prefetch_bucket_size=1"},
                                                          {z + "stage3_max_live_parameters=3000"},
                                                          {z + "reduce_bucket_size=500"},
                                                          {"training.gradient_checkpointing=true"}};
  for (const Json& config : {kLora, kFull})
    for (int stage = 0; stage < 4; ++stage) {
      const Result want = result_of("llama", config, 3, stage, 2, {z + "overlap_comm=false"});
      for (const auto& more : settings) {
        if (stage < 3 && &more != &settings.front() && &more != &settings[3]) continue;
        const Result got = result_of("llama", config, 3, stage, 2, more);
        EXPECT_EQ(got.losses, want.losses) << more[0] << " at stage " << stage;
        EXPECT_TRUE(got.weights == want.weights) << more[0] << " at stage " << stage;
      }
    }
  const auto small = [&](int stage, const Json& config) {
    return result_of("llama", config, 2, stage, 1, {z + "stage3_param_persistence_threshold=500"}).weights;
  };
  EXPECT_TRUE(small(0, kFull) == small(3, kFull));
  EXPECT_TRUE(small(2, kLora) == small(3, kLora));
}

// Groups of ranks that shard among themselves add up in another order.
TEST(Ranks, ShardGroupsTrainEqually) {
  for (const Json& config : {kLora, kFull}) {
    const std::vector<double> one = result_of("llama", config, 1, 0, 4).losses;
    for (int stage = 1; stage < 4; ++stage)
      for (const char* group : {"1", "2"})
        expect_near(result_of("llama", config, 4, stage, 1,
                              {std::string("zero_optimization.mics_shard_size=") + group})
                        .losses,
                    one, 1e-6);
  }
}

// If gradients are sharded, a table that is also the head is reduced twice in a micro-step, so its sums have
// another order.
TEST(Ranks, ATiedTableIsTheSameToRounding) {
  const Json config = {{"finetuning_type", "full"}};
  const Result one = result_of("qwen3", config, 1, 0, 2);
  for (int stage = 0; stage < 4; ++stage)
    expect_near(result_of("qwen3", config, 2, stage, 1).losses, one.losses, 1e-6);
}

TEST(Ranks, EvaluationIsTheSame) {
  const Json config = {{"finetuning_type", "full"},
                       {"data", {{"eval_datasets", {{{"path", "train.jsonl"}, {"type", "tokenized"}}}}}},
                       {"training", {{"per_device_eval_batch_size", 5}}},
                       {"evaluation", {{"eval_strategy", "steps"}, {"eval_steps", 3}}}};
  const auto evaluations = [&](int ranks, int stage) {
    const Workplace w("llama", config);
    EXPECT_EQ(w.run(command(ranks, stage, 2 / ranks, {})), 0) << w.says();
    std::vector<double> v;
    for (const Json& row : rows(w / "out/log.jsonl"))
      if (row.contains("eval_loss")) v.push_back(row["eval_loss"]);
    return v;
  };
  const std::vector<double> want = evaluations(1, 0);
  ASSERT_GT(want.size(), 1u);
  for (int stage = 0; stage < 4; ++stage) expect_near(evaluations(2, stage), want, 1e-6);
}

// In ft eval, a rank without a batch stays in step with the others.
TEST(Ranks, EvalWorksWithAnyNumberOfThem) {
  const Json config = {{"finetuning_type", "full"},
                       {"data", {{"eval_datasets", {{{"path", "train.jsonl"}, {"type", "tokenized"}}}}}},
                       {"training", {{"per_device_eval_batch_size", 5}}}};
  const Workplace w("llama", config);
  ASSERT_EQ(w.run({"eval", "--config", "run.json", "--json"}), 0) << w.says();
  const Json one = Json::parse(contents(w / "stdout"));
  for (const int ranks : {2, 3})
    for (const int stage : {0, 3}) {
      ASSERT_EQ(w.run({"launch", "-n", std::to_string(ranks), "eval", "--config", "run.json", "--json",
                       "zero_stage=" + std::to_string(stage),
                       "zero_optimization.stage3_param_persistence_threshold=0"}),
                0)
          << w.says();
      const Json some = Json::parse(contents(w / "stdout"));
      EXPECT_EQ(some["eval_tokens"], one["eval_tokens"]);
      EXPECT_NEAR(some["eval_loss"], one["eval_loss"], 1e-6);
    }
}

// ft generate gives the answers of one rank, in order, even if a rank has no rows left.
TEST(Ranks, GenerateShardsTheRows) {
  const Workplace w("llama", kFull);
  std::string rows;
  for (int i = 0; i < 5; ++i)
    rows += "{\"input_ids\": [" + std::to_string(3 + i) + (i % 2 ? ", 7, 9" : "") + "]}\n";
  std::ofstream(w / "in.jsonl") << rows;
  const std::vector<std::string> one = {"generate", "--model",  "model",     "--input",
                                        "in.jsonl", "--output", "one.jsonl", "generation.max_new_tokens=6"};
  ASSERT_EQ(w.run(one), 0) << w.says();
  for (const int ranks : {2, 3})
    for (const int stage : {0, 3}) {
      std::vector<std::string> some = one;
      some[6] = "some.jsonl";
      some.insert(some.begin(), {"launch", "-n", std::to_string(ranks)});
      some.insert(some.end(), {"--overwrite", "zero_stage=" + std::to_string(stage),
                               "zero_optimization.stage3_param_persistence_threshold=0"});
      ASSERT_EQ(w.run(some), 0) << w.says();
      EXPECT_EQ(contents(w / "some.jsonl"), contents(w / "one.jsonl"));
    }
}

// ft generate with an encoder-decoder, whose ranks also read new sources at different times.
TEST(Ranks, GenerateShardsSources) {
  const Workplace w("t5", kFull);
  std::string rows;
  for (int i = 0; i < 7; ++i)
    rows += "{\"input_ids\": [" + std::to_string(3 + i) + (i % 3 ? ", 7, 9" : "") + ", 1]}\n";
  std::ofstream(w / "in.jsonl") << rows;
  for (const char* beams : {"1", "3"}) {
    const std::vector<std::string> one = {"generate",
                                          "--model",
                                          "model",
                                          "--input",
                                          "in.jsonl",
                                          "--output",
                                          "one.jsonl",
                                          "generation.max_new_tokens=6",
                                          "generation.batch_size=2",
                                          "--overwrite",
                                          std::string("generation.num_beams=") + beams};
    ASSERT_EQ(w.run(one), 0) << w.says();
    for (const int ranks : {2, 3})
      for (const int stage : {0, 2, 3}) {
        std::vector<std::string> some = one;
        some[6] = "some.jsonl";
        some.insert(some.begin(), {"launch", "-n", std::to_string(ranks)});
        some.insert(some.end(), {"zero_stage=" + std::to_string(stage),
                                 "zero_optimization.stage3_param_persistence_threshold=0"});
        ASSERT_EQ(w.run(some), 0) << w.says();
        EXPECT_EQ(contents(w / "some.jsonl"), contents(w / "one.jsonl")) << ranks << " " << stage;
      }
  }
}

// A checkpoint does not depend on ranks and stages, so it can be resumed with others. If the number of
// micro-batches in a step changes, the run goes on at its step, and prints a warning.
TEST(Ranks, ACheckpointGoesOnWithOtherRanks) {
  const std::vector<std::string> saving = {"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"};
  const std::vector<std::string> resume = {"training.resume_from_checkpoint=out/checkpoint-5"};
  for (const Json& config : {kLora, kFull}) {
    const Result whole = result_of("llama", config, 2, 2, 1);
    for (const auto& [ranks, stage] : {std::pair{2, 2}, {2, 3}, {1, 0}}) {
      const Workplace w("llama", config);
      ASSERT_EQ(w.run(command(ranks, stage, 2 / ranks, saving)), 0) << w.says();
      ASSERT_EQ(w.run(command(2, 1, 1, resume)), 0) << w.says();
      if (ranks == 2) {
        EXPECT_TRUE(contents(w / file_of(config)) == whole.weights) << stage;
      }
      expect_near(losses(w / "out"), whole.losses, 1e-6);
      ASSERT_EQ(w.run(command(3, 1, 1, resume)), 0) << w.says();
      EXPECT_NE(w.says().find("2 a step on all ranks, and is 8, 3 a step now"), std::string::npos);
    }
  }
}

// Checkpoints of all stages are the same files.
TEST(Ranks, CheckpointsAreThoseOfOneStage) {
  const auto files = [](int stage) {
    const Workplace w("llama", kFull);
    EXPECT_EQ(
        w.run(command(2, stage, 1, {"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"})), 0)
        << w.says();
    return contents(w / "out/checkpoint-5/model.safetensors") +
           contents(w / "out/checkpoint-5/optimizer.safetensors");
  };
  const std::string want = files(0);
  EXPECT_GT(want.size(), 10000u);
  for (int stage = 1; stage < 4; ++stage) EXPECT_TRUE(files(stage) == want) << stage;
}

// Ranks are started by torchrun: without a launcher, with environment variables only.
TEST(Ranks, AreFoundInTheEnvironment) {
  const Workplace w("llama", kLora);
  const Result want = result_of("llama", kLora, 2, 2, 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(free_port()).c_str(), 1);
  std::vector<pid_t> ranks;
  for (const char* rank : {"0", "1"}) {
    setenv("RANK", rank, 1);
    ranks.push_back(w.start({"train", "--config", "run.json", "zero_stage=2"}));
  }
  for (const pid_t rank : ranks) EXPECT_EQ(w.finish(rank), 0) << w.says();
  unsetenv("WORLD_SIZE");
  EXPECT_EQ(w.train(), 2);
  EXPECT_NE(w.says().find("RANK is in the environment without WORLD_SIZE"), std::string::npos) << w.says();
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
  EXPECT_TRUE(contents(w / file_of(kLora)) == want.weights);
}

TEST(Ranks, UnsupportedSettingsAreRefused) {
  const Workplace w("llama", kLora);
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& text) {
    EXPECT_EQ(w.run(arguments), 2) << w.says();
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused({"launch", "-n", "2", "merge", "--config", "run.json"}, "ft launch merge is not available yet");
  refused({"launch", "--hosts", "hosts", "train"}, "there is no option --hosts; see ft launch --help");
  refused({"launch", "train", "--config", "run.json"}, "how many ranks");
  refused({"launch", "-n", "2", "train", "--config", "run.json", "distributed.nproc_per_node=3"},
          "distributed.nproc_per_node is 3");
  const auto zero = [&](int stage, const std::vector<std::string>& settings, const std::string& text) {
    auto more = settings;
    for (std::string& s : more) s = "zero_optimization." + s;
    refused(command(2, stage, 1, more), "zero_optimization." + text);
  };
  zero(3, {"allgather_bucket_size=1000"},
       "allgather_bucket_size: ft gathers in place, without a bucket; leave it out");
  zero(3, {"sub_group_size=1000"},
       "sub_group_size: without offload ft steps every parameter in place; leave it out");
  zero(3, {"stage3_max_reuse_distance=0"},
       "stage3_max_reuse_distance: ft releases a unit after each use; leave it out");
  zero(2, {"reduce_scatter=false"}, "reduce_scatter=false: ft always uses reduce-scatter; leave it out");
  zero(3, {"overlap_comm=false", "stage3_prefetch_bucket_size=1000"},
       "stage3_prefetch_bucket_size: with overlap_comm=false nothing is gathered ahead; leave it out");
  zero(2, {"mics_shard_size=3"}, "mics_shard_size is 3 and there are 2 ranks; it must divide their number");
  zero(2, {"mics_shard_size=0"}, "mics_shard_size is 0 and there are 2 ranks; it must divide their number");
  zero(0, {"mics_shard_size=2"}, "mics_shard_size: stage 0 shards nothing");
  refused({"train", "--config", "run.json", "distributed.nproc_per_node=2"}, "start it with ft launch");
  EXPECT_FALSE(fs::exists(w / "out/run.json"));
}

// The planned memory of a rank, including buffers, equals the measurement.
TEST(Ranks, PlannedMemoryIsTheRanks) {
  const std::string z = "zero_optimization.";
  const std::vector<std::vector<std::string>> settings = {
      {},
      {z + "overlap_comm=false"},
      {z + "stage3_max_live_parameters=20000", z + "reduce_bucket_size=1000"},
      {z + "stage3_param_persistence_threshold=500"},
      {z + "mics_shard_size=1", z + "stage3_prefetch_bucket_size=1"}};
  for (std::size_t i = 0; i < 20; ++i) {
    const Json& config = i < 10 ? kLora : kFull;
    const int stage = i % 10 < 5 ? 3 : 1 + static_cast<int>(i % 2);
    const std::vector<std::string>& more = settings[i % 5];
    const Workplace w("llama", config);
    auto train = command(3, stage, 1, more);
    auto plan_it = train;
    plan_it.erase(plan_it.begin(), plan_it.begin() + 4);  // launch -n 3 train
    plan_it.insert(plan_it.begin(), "plan");
    plan_it.insert(plan_it.end(), {"distributed.nproc_per_node=3", "--json"});
    ASSERT_EQ(w.run(plan_it), 0) << w.says();
    const Json plan = Json::parse(contents(w / "stdout"));
    ASSERT_EQ(w.run(train), 0) << w.says();
    const Json took = rows(w / "out/log.jsonl").back()["memory"];
    for (const char* what : {"weights", "adapter", "gradients", "optimizer", "communication"})
      EXPECT_EQ(took[what], plan[what]) << what << " at stage " << stage;
  }
}

}  // namespace
}  // namespace ft::test
