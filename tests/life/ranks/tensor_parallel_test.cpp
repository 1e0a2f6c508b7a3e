// Ranks that share each layer, tested from outside: the training of one rank, with any other settings.
#include <gtest/gtest.h>

#include "tests/life/trained.h"

namespace ft::test {
namespace {

const Words kTwo = {"distributed.tensor_parallel_size=2"};
const Words kPartition = {"distributed.partition_activations=true"};
const Words kSteps = {"training.max_steps=12", "training.weight_decay=0.1", "training.max_grad_norm=0.5"};

class TensorRanks : public testing::TestWithParam<Json> {};
INSTANTIATE_TEST_SUITE_P(All, TensorRanks, testing::Values(kLora, kFull));

// Dropout also covers adapters' inputs whose columns are split among ranks. Two ranks share each layer; there
// are two such pairs, or one, in each stage.
TEST_P(TensorRanks, AreOne) {
  const Trained one = train_on("llama", GetParam(), 1, 0, 2, kSteps);
  expect_same(train_on("llama", GetParam(), 2, 0, 2, with(kTwo, kSteps)), one);
  for (int stage = 0; stage < 4; ++stage)
    expect_same(train_on("llama", GetParam(), 4, stage, 1, with(kTwo, kSteps)), one);
}

// Rows between layers are replicated, or sharded too.
TEST_P(TensorRanks, TakeThePlannedMemory) {
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const Words& how : {kTwo, with(kTwo, kPartition)}) {
    const Workplace w("llama", GetParam());
    ASSERT_EQ(w.run(command(2, 0, 1, how)), 0) << w.says();
    const Json measured = rows(w / "out/log.jsonl").back().at("memory");
    ASSERT_EQ(w.run(with({"plan", "--config", "run.json", "--json", "distributed.nproc_per_node=2"}, how)), 0)
        << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    expect_planned(planned, measured);
    EXPECT_LT(measured.at("activations").get<std::int64_t>(), before);
    before = measured.at("activations");
  }
}

TEST_P(TensorRanks, ShardRowsToo) {
  const Trained one = train_on("llama", GetParam(), 1, 0, 2, kSteps);
  for (const int stage : {0, 3})
    expect_same(train_on("llama", GetParam(), 4, stage, 1, with(with(kTwo, kPartition), kSteps)), one);
  const Words again = with(kPartition, {"training.gradient_checkpointing=false"});
  expect_same(train_on("llama", GetParam(), 2, 0, 2, with(with(kTwo, again), kSteps)), one);
}

// Checkpoints of ranks that share layers are continued by one rank, and the other way round.
TEST_P(TensorRanks, SaveCheckpointsThatOtherRanksLoad) {
  const Words saving = with(kSteps, {"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"});
  const Trained one = train_on("llama", GetParam(), 1, 0, 2, kSteps);
  for (const bool shared_first : {true, false}) {
    const Workplace w("llama", GetParam());
    const auto go = [&](bool shared, const Words& more) {
      const Words all = with(with(saving, more), shared ? kTwo : Words{});
      return w.run(command(shared ? 4 : 1, shared ? 1 : 0, shared ? 1 : 2, all));
    };
    expect_continued(w, GetParam(), shared_first, 5, one, go);
  }
}

TEST(TensorRanks, RefuseToShardRowsInUnsupportedCases) {
  const Workplace w("llama", kFull);
  const std::string d = "distributed.";
  for (const auto& [more, says] : {std::pair{Words{}, "distributed.tensor_parallel_size is 1; set that"},
                                   {with(kTwo, {d + "sequence_parallel_size=2"}),
                                    "not with distributed.sequence_parallel_size above 1 yet"}}) {
    EXPECT_EQ(w.run(command(4, 0, 1, with(kPartition, more))), 2);
    EXPECT_NE(w.says().find(says), std::string::npos) << w.says();
  }
  const Workplace t5("t5", {{"finetuning_type", "full"},
                            {"data", {{"max_seq_length", nullptr}, {"max_source_length", 64}}}});
  EXPECT_EQ(t5.run(command(3, 0, 1, with(kPartition, {d + "tensor_parallel_size=3"}))), 2);
  EXPECT_NE(t5.says().find("ranks cannot share out rows of T5 yet"), std::string::npos) << t5.says();
}

TEST(TensorRanks, RefuseUnsupportedModelsAndSettings) {
  const Workplace w("llama-gqa", kFull);  // one key/value head
  EXPECT_EQ(w.run(command(2, 0, 1, kTwo)), 2);
  EXPECT_NE(w.says().find("num_key_value_heads"), std::string::npos) << w.says();
  const Workplace other("llama", kFull);
  for (const char* setting : {"training.optim=adafactor", "lora.use_dora=true"}) {
    const Words more =
        std::string(setting).starts_with("lora") ? Words{setting, "finetuning_type=lora"} : Words{setting};
    EXPECT_EQ(other.run(command(2, 0, 1, with(kTwo, more))), 2);
    EXPECT_NE(other.says().find("distributed.tensor_parallel_size"), std::string::npos) << other.says();
  }
}

}  // namespace
}  // namespace ft::test
