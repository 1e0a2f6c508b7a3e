// Command lines for several ranks, and the results of their runs.
#pragma once
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {

// Returns the arguments of a run. Unless `more` sets another threshold, stage 3 shards all parameters, which
// are so small that by default all would be persistent.
inline std::vector<std::string> command(int ranks, int stage, int accumulation,
                                        const std::vector<std::string>& more) {
  std::vector<std::string> c = {"train",
                                "--config",
                                "run.json",
                                "zero_stage=" + std::to_string(stage),
                                "training.gradient_accumulation_steps=" + std::to_string(accumulation),
                                "zero_optimization.stage3_param_persistence_threshold=0"};
  if (ranks > 1) c.insert(c.begin(), {"launch", "-n", std::to_string(ranks)});
  c.insert(c.end(), more.begin(), more.end());
  return c;
}

// Returns a launcher's ranks, in their order.
inline std::vector<pid_t> children(pid_t pid) {
  std::istringstream in(
      contents("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children"));
  std::vector<pid_t> all;
  for (pid_t c = 0; in >> c;) all.push_back(c);
  return all;
}

struct Result {
  std::vector<double> losses;
  std::string weights;
};

inline std::string file_of(const Json& config) {
  return config.contains("lora") ? "out/adapter_model.safetensors" : "out/model.safetensors";
}

inline Result result_of(const std::string& golden, const Json& config, int ranks, int stage, int accumulation,
                        const std::vector<std::string>& more = {}) {
  const Workplace w(golden, config);
  EXPECT_EQ(w.run(command(ranks, stage, accumulation, more)), 0) << w.says();
  return {losses(w / "out"), contents(w / file_of(config))};
}

// Seconds that a rank may be silent before tests expect it to be lost: longer than the pauses of a busy
// machine.
inline constexpr int kSilence = 20;
inline const std::string kLostAfterSilence = "distributed.timeout_s=" + std::to_string(kSilence);
inline std::string silent(pid_t rank) {
  return "(process " + std::to_string(rank) + ") has not answered for " + std::to_string(kSilence) +
         " s, at step ";
}

}  // namespace ft::test
