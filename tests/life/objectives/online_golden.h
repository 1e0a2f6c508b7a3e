// A full run that answers prompts itself, three in a micro-batch, and its comparison with a run in Python on
// the same answers (tests/golden/make_ppo.py, make_rloo.py).
#pragma once
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {

inline fs::path golden(const std::string& name) { return source_path("tests/golden/" + name); }

inline Json golden_config(const Json& objective, int steps) {
  Json c = {{"finetuning_type", "full"},
            {"objective",
             {{"reward_model_name_or_path", golden("preference/reward/model").string()},
              {"max_completion_length", 6},
              {"num_iterations", 2}}},
            {"data",
             {{"datasets", {{{"path", golden("ppo/prompts.jsonl").string()}}}},
              {"max_seq_length", 32},
              {"shuffle", false}}},
            {"training",
             {{"per_device_train_batch_size", 3},
              {"gradient_accumulation_steps", 2},
              {"max_steps", steps},
              {"learning_rate", 1e-3},
              {"lr_scheduler_type", "constant"},
              {"weight_decay", 0},
              {"max_grad_norm", 1},
              {"adam_epsilon", 1e-5},
              {"bf16", false}}}};
  c["objective"].merge_patch(objective);
  return c;
}

// Trains with the run's options, and compares answers, rewards and every step's columns.
inline void expect_golden_run(const std::string& runs, const char* name, Json objective, int steps) {
  const Json run = Json::parse(contents(golden(runs)))["runs"][name];
  objective.merge_patch(run["objective"]);
  const Workplace w("llama-gqa", golden_config(objective, steps));
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
    for (const auto& [column, value] : run["curves"][i].items()) {
      ASSERT_TRUE(log[i].contains(column)) << column << " " << i;
      const double want = value, luck = run["shaken"].value(column, 0.0);
      EXPECT_NEAR(log[i][column], want, (1e-5 + 4 * luck) * (1 + std::abs(want))) << column << " " << i;
    }
}

}  // namespace ft::test
