// PPO against DeepSpeed-Chat's formulas in PyTorch: answers, and every step's losses, norms and columns
// (tests/golden/make_ppo.py).
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

fs::path golden(const std::string& name) { return source_path("tests/golden/" + name); }

Json config_of(const Json& options) {
  Json c = {{"finetuning_type", "full"},
            {"objective",
             {{"type", "ppo"},
              {"reward_model_name_or_path", golden("preference/reward/model").string()},
              {"max_completion_length", 6},
              {"steps_per_generation", 4},
              {"num_iterations", 2}}},
            {"data",
             {{"datasets", {{{"path", golden("ppo/prompts.jsonl").string()}}}},
              {"max_seq_length", 32},
              {"shuffle", false}}},
            {"training",
             {{"per_device_train_batch_size", 3},
              {"gradient_accumulation_steps", 2},
              {"max_steps", 16},
              {"learning_rate", 1e-3},
              {"lr_scheduler_type", "constant"},
              {"weight_decay", 0},
              {"max_grad_norm", 1},
              {"adam_epsilon", 1e-5},
              {"bf16", false}}}};
  c["objective"].merge_patch(options);
  return c;
}

class PpoGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Runs, PpoGolden, testing::Values("plain", "options"),
                         [](const auto& run) { return std::string(run.param); });

TEST_P(PpoGolden, IsDeepSpeedChatsTraining) {
  const Json run = Json::parse(contents(golden("ppo/runs.json")))["runs"][GetParam()];
  const Workplace w("llama-gqa", config_of(run["objective"]));
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
