// Ranks that share sequences, tested from outside: the training of one rank.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

const std::vector<std::string> kSteps = {"training.max_steps=6"};
const Json kSharedT5 = {{"finetuning_type", "full"},
                        {"data", {{"max_seq_length", nullptr}, {"max_source_length", 64}}}};

std::vector<std::string> shared(int sequence, std::vector<std::string> more = kSteps) {
  more.push_back(str("distributed.sequence_parallel_size=", sequence));
  return more;
}

// Arguments for a ring, which also allows heads that the ranks do not divide.
std::vector<std::string> in_a_ring(int sequence, std::vector<std::string> more = kSteps) {
  more.emplace_back("distributed.sequence_parallel_type=ring");
  return shared(sequence, std::move(more));
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(std::abs(got[i] - want[i]), 1e-6 * want[i]) << i;
}

TEST(SharedSequences, TrainEqually) {
  for (const Json& config : {kLora, kFull, kQlora, kFp8}) {
    const std::vector<double> want = result_of("llama", config, 1, 0, 2, kSteps).losses;
    std::vector<Result> stages;
    for (int stage = 0; stage < 4; ++stage)
      stages.push_back(result_of("llama", config, 4, stage, 1, shared(2)));
    for (const Result& r : stages) {
      expect_near(r.losses, want);
      EXPECT_EQ(r.losses, stages[0].losses);
      EXPECT_TRUE(r.weights == stages[0].weights);
    }
    const std::vector<std::string> again = {"training.gradient_checkpointing=true", "training.max_steps=6",
                                            "zero_optimization.overlap_comm=false"};
    EXPECT_TRUE(result_of("llama", config, 4, 3, 1, shared(2, again)).weights == stages[0].weights);
  }
}

TEST(SharedSequences, MayBePacked) {
  const std::vector<std::string> packed = {"training.max_steps=4", "data.packing=true"};
  const Json config = {{"finetuning_type", "full"}, {"data", {{"max_seq_length", 65}}}};
  const std::vector<double> want = result_of("mistral-window", config, 1, 0, 1, packed).losses;
  expect_near(result_of("mistral-window", config, 2, 2, 1, shared(2, packed)).losses, want);
  expect_near(result_of("mistral-window", config, 3, 2, 1, in_a_ring(3, packed)).losses, want);
}

TEST(SharedSequences, MayFormARing) {
  for (const Json& config : {kFull, kLora}) {
    const std::vector<double> want = result_of("llama-gqa", config, 1, 0, 2, kSteps).losses;
    const Result first = result_of("llama-gqa", config, 4, 2, 1, in_a_ring(2));
    expect_near(first.losses, want);
    const std::vector<std::string> again = {"training.gradient_checkpointing=true", "training.max_steps=6",
                                            "zero_optimization.overlap_comm=false"};
    EXPECT_TRUE(result_of("llama-gqa", config, 4, 3, 1, in_a_ring(2, again)).weights == first.weights);
  }
}

// The memory planned for rank 0 suffices for all ranks, wherever in the sequences their rows are.
TEST(SharedSequences, OfSeveralInAMicroBatchFitThePlan) {
  for (const bool ring : {false, true})
    for (const int ranks : {2, 3, 4}) {
      if (!ring && ranks == 3) continue;
      const Workplace w("llama", kFull);
      const std::vector<std::string> more = {"training.max_steps=6",
                                             "training.per_device_train_batch_size=4"};
      EXPECT_EQ(w.run(command(ranks, 0, 1, ring ? in_a_ring(ranks, more) : shared(ranks, more))), 0)
          << w.says();
    }
}

// Resumed bit for bit, in another stage and after an evaluation.
TEST(SharedSequences, AreResumedAndEvaluated) {
  const Workplace one("llama", kFull), two("llama", kFull);
  const std::vector<std::string> more = shared(
      2, {"training.max_steps=6", "data.val_set_size=5", "evaluation.eval_strategy=steps",
          "evaluation.eval_steps=2", "checkpointing.save_strategy=steps", "checkpointing.save_steps=2"});
  ASSERT_EQ(one.run(command(2, 3, 1, more)), 0) << one.says();
  ASSERT_EQ(two.run(command(2, 1, 1, more)), 0) << two.says();
  EXPECT_TRUE(contents(one / "out/model.safetensors") == contents(two / "out/model.safetensors"));
  for (const char* later : {"out/checkpoint-4", "out/checkpoint-6"}) fs::remove_all(two / later);
  std::vector<std::string> again = more;
  again.emplace_back("training.resume_from_checkpoint=auto");
  ASSERT_EQ(two.run(command(2, 2, 1, again)), 0) << two.says();
  EXPECT_TRUE(contents(one / "out/model.safetensors") == contents(two / "out/model.safetensors"));
  const auto evaluations = [](const Workplace& w) {
    std::vector<double> all;
    for (const Json& row : rows(w / "out/log.jsonl"))
      if (row.contains("eval_loss")) all.push_back(row["eval_loss"]);
    return all;
  };
  Workplace alone("llama", kFull);
  const std::vector<std::string> plain(more.begin(), more.end() - 1);
  ASSERT_EQ(alone.run(command(1, 0, 1, plain)), 0) << alone.says();
  expect_near(evaluations(one), evaluations(alone));
}

TEST(SharedSequences, AreSentAsPlanned) {
  const Workplace w("llama", kFull);
  const std::vector<std::string> more = shared(2, {"training.max_steps=2"});
  ASSERT_EQ(w.run(command(4, 2, 1, more)), 0) << w.says();
  std::vector<std::string> plan = {"plan",
                                   "--config",
                                   "run.json",
                                   "--json",
                                   "distributed.nproc_per_node=4",
                                   "zero_stage=2",
                                   "zero_optimization.stage3_param_persistence_threshold=0"};
  plan.insert(plan.end(), more.begin(), more.end());
  ASSERT_EQ(w.run(plan), 0) << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  EXPECT_EQ(planned.at("sequence_parallel_size"), 2);
  EXPECT_EQ(planned.at("data_parallel_size"), 2);
  EXPECT_GT(planned.at("sent_per_step"), 0);
}

struct Wrong {
  std::vector<std::string> more;
  int ranks;
  std::string says;
};

TEST(SharedSequences, UnsupportedSettingsAreRefused) {
  const std::string d = "distributed.";
  const std::vector<Wrong> all = {
      {{d + "sequence_parallel_size=2"}, 3, "take 2 or 4 ranks (ft launch -n), or a size of 1 or 3"},
      {{d + "sequence_parallel_size=2"},
       1,
       "distributed.sequence_parallel_size 2, and 1 rank is not a multiple of it"},
      {{d + "data_parallel_size=2"},
       1,
       "distributed.data_parallel_size is 2, and of 1 ranks 1 are data-parallel"},
      {{d + "sequence_parallel_size=2", d + "data_parallel_size=2"},
       2,
       "distributed.data_parallel_size is 2, and of 2 ranks 1 remain beside "
       "distributed.sequence_parallel_size 2"},
      {{d + "sequence_parallel_size=3"},
       3,
       "distributed.sequence_parallel_size is 3: 3 ranks cannot share 4 heads (num_attention_heads) and"},
  };
  const Workplace w("llama", kFull);
  for (const Wrong& wrong : all) {
    EXPECT_EQ(w.run(command(wrong.ranks, 0, 1, wrong.more)), 2) << wrong.says;
    EXPECT_NE(w.says().find(wrong.says), std::string::npos) << w.says();
    EXPECT_FALSE(fs::exists(w / "out/log.jsonl"));
  }
  const Workplace t5("t5", kSharedT5);
  for (const auto& [more, says] :
       {std::pair{std::vector{d + "sequence_parallel_size=2"},
                  "2 ranks cannot share 3 heads (num_heads) evenly"},
        {in_a_ring(2, {}), "distributed.sequence_parallel_type is ring, which has no T5 yet"}}) {
    EXPECT_EQ(t5.run(command(2, 0, 1, more)), 2);
    EXPECT_NE(t5.says().find(says), std::string::npos) << t5.says();
  }
}

TEST(SharedSequences, MayBeT5s) {
  const std::vector<double> want = result_of("t5", kSharedT5, 1, 0, 1, kSteps).losses;
  expect_near(result_of("t5", kSharedT5, 3, 0, 1, shared(3)).losses, want);
  expect_near(result_of("t5", kSharedT5, 3, 3, 1, shared(3)).losses, want);
}

TEST(SharedSequences, AreVerified) {
  const Workplace w("llama", kFull);
  EXPECT_EQ(w.run({"verify", "zero", "--config", "run.json", "--ranks", "1", "2", "--steps", "2",
                   "distributed.sequence_parallel_size=2"}),
            0)
      << w.says() << contents(w / "stdout");
}

}  // namespace
}  // namespace ft::test
