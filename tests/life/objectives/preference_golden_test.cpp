// Fifty steps of every objective against TRL's own trainers: losses, gradient norms and columns, full and
// LoRA (tests/golden/make_preference.py).
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

fs::path golden(const std::string& name) { return source_path("tests/golden/preference/" + name); }

Json config_of(const Json& run) {
  const bool reward = run["objective"]["type"] == "reward";
  const fs::path adapter =
      reward ? golden("reward/adapter") : fs::path(source_path("tests/golden/models/lora/adapter"));
  Json c = {{"objective", run["objective"]},
            {"data", {{"datasets", {{{"path", golden(run["rows"]).string()}}}}, {"shuffle", false}}},
            {"training",
             {{"per_device_train_batch_size", 4},
              {"max_steps", 50},
              {"learning_rate", 1e-3},
              {"lr_scheduler_type", "cosine"},
              {"warmup_steps", 5},
              {"weight_decay", 0},
              {"max_grad_norm", 1},
              {"adam_epsilon", 1e-5},
              {"bf16", false}}}};
  if (reward) c["model"]["model_name_or_path"] = golden("reward/model").string();
  if (run["lora"])
    c["lora"] = {{"adapter_name_or_path", adapter.string()}};
  else
    c["finetuning_type"] = "full";
  return c;
}

class PreferenceGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Runs, PreferenceGolden,
                         testing::Values("dpo_full", "dpo_lora", "kto_full", "kto_lora", "orpo_full",
                                         "orpo_lora", "cpo_full", "cpo_lora", "simpo_full", "simpo_lora",
                                         "reward_full", "reward_lora"),
                         [](const auto& run) { return std::string(run.param); });

TEST_P(PreferenceGolden, IsTrlsTraining) {
  const Json run = Json::parse(contents(golden("runs.json")))["runs"][GetParam()];
  const Workplace w("llama-gqa", config_of(run));
  ASSERT_EQ(w.train(), 0) << w.says();
  std::vector<Json> log;
  for (const Json& row : rows(w / "out/log.jsonl"))
    if (row.contains("loss")) log.push_back(row);
  ASSERT_EQ(log.size(), 50u);
  for (const auto& [name, curve] : run["curves"].items()) {
    // `luck`: the difference in PyTorch's run with weights that differ by one unit in the last place.
    // Accuracies count comparisons, which rounding changes only if both values are nearly equal.
    const bool counted = name.ends_with("ccuracies") || name.ends_with("ccuracy");
    const double luck = counted ? 0 : run["shaken"][name].get<double>();
    const double bound = name == "loss" ? 1e-5 : 1e-5 + 4 * luck;
    for (std::size_t i = 0; i < log.size(); ++i) {
      if (curve[i].is_null()) continue;
      ASSERT_TRUE(log[i].contains(name)) << name;
      const double want = curve[i], is = log[i][name];
      EXPECT_NEAR(is, want, bound * (1 + std::abs(want))) << name << ", step " << i + 1;
    }
  }
}

}  // namespace
}  // namespace ft::test
