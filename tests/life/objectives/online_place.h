// A run that answers prompts, and a shell script that rewards the answers.
#pragma once
#include <gtest/gtest.h>

#include <functional>

#include "tests/life/program.h"

namespace ft::test {

// A part of the script that reads a question into $id and $first, the first token of the answer.
inline const std::string kRead =
    "rest=${line#*'\"id\":'}; id=${rest%%,*}\n"
    "ids=${line#*'\"completion_ids\":['}; ids=${ids%%]*}; first=${ids%%,*}\n";
inline const std::string kGood =
    "while read -r line; do\n" + kRead + "echo \"{\\\"id\\\": $id, \\\"reward\\\": $((first % 5))}\"\ndone\n";

inline Json online(const Json& objective, const Json& kind = kLora) {
  Json c = {{"objective",
             {{"type", "grpo"},
              {"num_generations", 3},
              {"max_completion_length", 5},
              {"reward_command", "exec sh reward.sh"}}},
            {"data", {{"datasets", {{{"path", "prompts.jsonl"}}}}, {"max_seq_length", 20}}},
            {"generation", {{"batch_size", 4}}},
            {"training",
             {{"per_device_train_batch_size", 2},
              {"gradient_accumulation_steps", 6},
              {"num_train_epochs", 1},
              {"learning_rate", 0.01}}}};
  c["objective"].merge_patch(objective);
  c.merge_patch(kind);
  return c;
}

class OnlinePlace : public Workplace {
 public:
  explicit OnlinePlace(const Json& objective = Json::object(), const Json& kind = kLora)
      : Workplace("llama", online(objective, kind)) {
    std::ofstream out(*this / "prompts.jsonl");
    for (int i = 0; i < 16; ++i) {
      std::vector<int> ids{1};
      for (int t = 0; t < 1 + i % 4; ++t) ids.push_back(3 + (7 * i + 11 * t) % 56);
      out << Json{{"prompt_ids", ids}, {"level", i}}.dump() << "\n";
    }
    reward(kGood);
  }
  // Writes held-out prompts, which differ from those for training.
  void hold_out(int count) const {
    std::ofstream out(*this / "held.jsonl");
    for (int i = 0; i < count; ++i) out << Json{{"prompt_ids", {1, 4 + 5 * i, 9 + i % 3}}}.dump() << "\n";
  }
  std::vector<Json> evaluations(const std::string& out = "out") const {
    std::vector<Json> all;
    for (const Json& row : rows(*this / out / "log.jsonl"))
      if (row.contains("eval_loss")) all.push_back(row);
    return all;
  }
  void reward(const std::string& script) const { std::ofstream(*this / "reward.sh") << script; }
  std::string weights(const std::string& out = "out") const {
    const bool adapter = fs::exists(*this / out / "adapter_model.safetensors");
    return contents(*this / out / (adapter ? "adapter_model.safetensors" : "model.safetensors"));
  }
  std::vector<Json> log(const std::string& out = "out") const {
    std::vector<Json> all;
    for (Json row : rows(*this / out / "log.jsonl")) {
      if (!row.contains("loss")) continue;
      for (const char* clock : {"tokens_per_second", "time", "time_share/generating", "time_share/rewarding"})
        row.erase(clock);
      all.push_back(row);
    }
    return all;
  }
  std::vector<Json> rollouts(const std::string& out = "out") const {
    return rows(*this / out / "rollouts.jsonl");
  }
};

// Trains with these settings, and again from the checkpoints of steps 1 and 3: weights, log and answers are
// the same to the bit. more: further bytes that must be the same.
inline void expect_same_after_resuming(
    const OnlinePlace& w, std::vector<std::string> settings = {},
    const std::function<std::string()>& more = [] { return std::string(); }) {
  std::vector<std::string> saving = std::move(settings);
  saving.insert(saving.end(), {"checkpointing.save_strategy=steps", "checkpointing.save_steps=1"});
  ASSERT_EQ(w.train(saving), 0) << w.says();
  const std::string want = w.weights(), others = more(), rollouts = contents(w / "out/rollouts.jsonl");
  const auto log = w.log();
  ASSERT_GE(log.size(), 4u);
  for (const int step : {1, 3}) {
    std::vector<std::string> again = saving;
    again.push_back("training.resume_from_checkpoint=out/checkpoint-" + std::to_string(step));
    ASSERT_EQ(w.train(again), 0) << w.says();
    EXPECT_TRUE(w.weights() == want) << step;
    EXPECT_TRUE(more() == others) << step;
    EXPECT_EQ(w.log(), log) << step;
    EXPECT_EQ(contents(w / "out/rollouts.jsonl"), rollouts) << step;
  }
}

}  // namespace ft::test
