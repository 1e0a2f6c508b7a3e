// Every optimizer, tested from outside, in runs with accumulation, clipping, steps that fp16 skips, a moving
// average and a weight that is trained later: the same bits in every stage, and if a checkpoint of one stage
// is continued in another.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/core/error.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

class Optimizers : public testing::TestWithParam<const char*> {
 protected:
  static Json config() {
    Json c = kFull;
    c["training"] = {{"optim", GetParam()},
                     {"max_steps", 10},
                     {"learning_rate", 0.001},
                     {"weight_decay", 0.1},
                     {"max_grad_norm", 0.5},
                     {"ema_decay", 0.9},
                     {"fp16", true},
                     {"loss_scaling", {{"initial_scale_power", 24}, {"hysteresis", 1}}},
                     {"param_groups",
                      {{{"params", "k_proj"}, {"learning_rate", 0.002}},
                       {{"params", "v_proj"}, {"frozen_until_step", 3}}}}};
    c["checkpointing"] = {{"save_strategy", "steps"}, {"save_steps", 6}};
    return c;
  }
};

struct Outcome {
  std::vector<double> losses;
  std::string weights, average;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome(const Workplace& w) {
  return {losses(w / "out"), contents(w / "out/model.safetensors"),
          contents(w / "out/ema/model.safetensors")};
}

bool skips_steps(const Workplace& w) {
  for (const Json& row : rows(w / "out/log.jsonl"))
    if (row.value("skipped_steps", 0) > 0) return true;
  return false;
}

TEST_P(Optimizers, HaveTheSameBitsUnderEveryStage) {
  for (const int accumulation : {1, 2}) {
    const Workplace w("llama", config());
    // With several micro-steps, sharded gradients are added up in another order than replicated ones.
    ASSERT_EQ(w.run(command(3, accumulation == 1 ? 0 : 2, accumulation, {})), 0) << w.says();
    const Outcome want = outcome(w);
    ASSERT_FALSE(want.average.empty());
    EXPECT_NE(want.average, want.weights);
    EXPECT_TRUE(skips_steps(w));
    fs::rename(w / "out", w / "first");
    ASSERT_EQ(w.run(command(3, 3, accumulation, {})), 0) << w.says();
    EXPECT_TRUE(outcome(w) == want) << accumulation;
    fs::rename(w / "out", w / "second");
    ASSERT_EQ(w.run(command(3, accumulation == 1 ? 1 : 3, accumulation,
                            {"training.resume_from_checkpoint=first/checkpoint-6"})),
              0)
        << w.says();
    EXPECT_TRUE(contents(w / "out/model.safetensors") == want.weights) << accumulation;
    EXPECT_TRUE(contents(w / "out/ema/model.safetensors") == want.average) << accumulation;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers,
                         testing::Values("adamw", "adamw_8bit", "lion", "lion_8bit", "ademamix",
                                         "ademamix_8bit", "sgd", "adagrad", "rmsprop", "adafactor", "muon",
                                         "paged_adamw_8bit"));

// With one more rank, sums have another order.
TEST_P(Optimizers, GoOnWithAnotherNumberOfRanks) {
  Json c = config();
  c["training"].erase("fp16");
  c["training"].erase("loss_scaling");
  const Workplace w("llama", c);
  ASSERT_EQ(w.run(command(2, 2, 3, {})), 0) << w.says();
  const std::vector<double> want = losses(w / "out");
  fs::rename(w / "out", w / "first");
  ASSERT_EQ(w.run(command(3, 3, 2, {"training.resume_from_checkpoint=first/checkpoint-6"})), 0) << w.says();
  const std::vector<double> got = losses(w / "out");
  ASSERT_EQ(got.size(), 4u);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i + 6], 1e-4 * want[i + 6]) << i;
}

// Memory and bytes sent, of states that are sharded in blocks and of gradients that are gathered completely.
TEST(OptimizersPlan, IsMeasuredToTheByte) {
  for (const auto& [optim, stage] :
       {std::pair{"adamw_8bit", 3}, {"adafactor", 1}, {"adafactor", 3}, {"muon", 3}}) {
    const Workplace w("llama", kFull);
    // An epoch has three micro-batches.
    const std::vector<std::string> train =
        command(3, stage, 3,
                {"training.max_steps=3", str("training.optim=", optim), "training.ema_decay=0.9",
                 optim == std::string("adafactor") ? "training.optim_args=scale_parameter=True"
                                                   : "training.max_grad_norm=1"});
    ASSERT_EQ(w.run(train), 0) << w.says();
    const Json row = rows(w / "out/log.jsonl").back();
    std::vector<std::string> plan(std::find(train.begin(), train.end(), "train"), train.end());
    plan[0] = "plan";
    plan.insert(plan.end(), {"--json", "distributed.nproc_per_node=3"});
    ASSERT_EQ(w.run(plan), 0) << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    for (const auto& [name, bytes] : row.at("memory").items())
      EXPECT_EQ(planned.at(name), bytes) << optim << ": " << name << ", stage " << stage;
    EXPECT_EQ(planned.at("sent_per_step"), row.at("sent_per_step")) << optim << ", stage " << stage;
  }
}

}  // namespace
}  // namespace ft::test
