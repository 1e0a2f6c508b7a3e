// RLOO against TRL: answers, and every step's losses, norms and columns (tests/golden/make_rloo.py).
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

Json rloo_on_prompts(const Json& options) {
  Json c = {{"finetuning_type", "full"},
            {"objective",
             {{"type", "rloo"},
              {"reward_model_name_or_path", source_path("tests/golden/preference/reward/model")},
              {"max_completion_length", 6},
              {"num_iterations", 2}}},
            {"data",
             {{"datasets", {{{"path", source_path("tests/golden/ppo/prompts.jsonl")}}}},
              {"max_seq_length", 32},
              {"shuffle", false}}},
            {"training",
             {{"per_device_train_batch_size", 3},
              {"gradient_accumulation_steps", 2},
              {"max_steps", 8},
              {"learning_rate", 1e-3},
              {"lr_scheduler_type", "constant"},
              {"weight_decay", 0},
              {"max_grad_norm", 1},
              {"adam_epsilon", 1e-5},
              {"bf16", false}}}};
  c["objective"].merge_patch(options);
  return c;
}

class RlooGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Runs, RlooGolden, testing::Values("plain", "options"),
                         [](const auto& run) { return std::string(run.param); });

TEST_P(RlooGolden, IsTRLsTraining) {
  const Json run = Json::parse(contents(source_path("tests/golden/rloo/runs.json")))["runs"][GetParam()];
  const Workplace w("llama-gqa", rloo_on_prompts(run["objective"]));
  ASSERT_EQ(w.train(), 0) << w.says();
  const std::vector<Json> given = rows(w / "out/rollouts.jsonl");
  ASSERT_EQ(given.size(), run["rollouts"].size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(given[i]["completion_ids"], run["rollouts"][i]["completion_ids"]) << i;
    EXPECT_NEAR(given[i]["reward"], run["rollouts"][i]["reward"], 1e-5) << i;
  }
  std::vector<Json> log;
  for (const Json& row : rows(w / "out/log.jsonl"))
    if (row.contains("loss")) log.push_back(row);
  ASSERT_EQ(log.size(), run["curves"].size());
  for (std::size_t i = 0; i < log.size(); ++i)
    for (const auto& [name, value] : run["curves"][i].items()) {
      ASSERT_TRUE(log[i].contains(name)) << name << " " << i;
      const double want = value, luck = run["shaken"].value(name, 0.0);
      EXPECT_NEAR(log[i][name], want, (1e-5 + 4 * luck) * (1 + std::abs(want))) << name << " " << i;
    }
}

}  // namespace
}  // namespace ft::test
