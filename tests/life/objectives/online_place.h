// Runs that answer prompts, a shell script that rewards the answers, and what holds for all of them.
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

// A run whose models answer prompts, with its results.
class AnsweringPlace : public Workplace {
 public:
  using Workplace::Workplace;
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
};

class OnlinePlace : public AnsweringPlace {
 public:
  explicit OnlinePlace(const Json& objective = Json::object(), const Json& kind = kLora)
      : AnsweringPlace("llama", online(objective, kind)) {
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

// Two ranks in stages 2 and 3 train to the same bits and give the same answers; one rank's log has nearly the
// same numbers. A generation has six micro-batches of a rank.
inline void expect_same_in_stages(const OnlinePlace& w) {
  const auto launched = [&](int stage) {
    const std::string out = "s" + std::to_string(stage);
    EXPECT_EQ(
        w.run({"launch", "-n", "2", "train", "--config", "run.json", "zero_stage=" + std::to_string(stage),
               "zero_optimization.stage3_param_persistence_threshold=0", "objective.steps_per_generation=6",
               "training.gradient_accumulation_steps=3", "training.output_dir=" + out}),
        0)
        << w.says();
    return out;
  };
  ASSERT_EQ(w.train(), 0) << w.says();
  const std::string plain = launched(2), sharded = launched(3);
  EXPECT_TRUE(w.weights(plain) == w.weights(sharded));
  EXPECT_EQ(contents(w / plain / "rollouts.jsonl"), contents(w / sharded / "rollouts.jsonl"));
  const auto one = w.log(), several = w.log(plain);
  ASSERT_EQ(one.size(), several.size());
  for (std::size_t i = 0; i < 2; ++i)
    for (const char* name : {"loss", "entropy", "kl", "reward"})
      if (one[i].contains(name)) {
        EXPECT_NEAR(one[i][name], several[i][name], 1e-5) << name << " " << i;
      }
}

// The plan covers the run's memory, and knows what does not depend on the answers to the byte.
inline void expect_plan_covers(const Workplace& w) {
  ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json"}), 0) << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(w.train(), 0) << w.says();
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  for (const char* name : {"weights", "adapter", "gradients", "optimizer"})
    EXPECT_EQ(planned.at(name), measured.at(name)) << name;
  for (const char* name : {"activations", "scratch", "total"})  // answers may be shorter than planned
    EXPECT_GE(planned.at(name).get<double>(), measured.at(name).get<double>()) << name;
}

}  // namespace ft::test
