// Settings of objectives whose policy generates answers: rewards of the answers, and the way they are
// generated and used.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/rules.h"
#include "engine/train/objectives/kind.h"

namespace ft {

// Checks of an answer, see app/rollouts/checks.cpp.
enum class RewardCheck : std::uint8_t { exact_match, number, regex, length };
constexpr auto words(RewardCheck) {
  using enum RewardCheck;
  return to_words<RewardCheck>(
      {{exact_match, "exact_match"}, {number, "number"}, {regex, "regex"}, {length, "length"}});
}

struct AnswerRewards {
  std::vector<RewardCheck> reward_funcs;
  std::optional<std::string> reward_command, reward_model_name_or_path, reward_regex;
  std::optional<double> reward_timeout;
  std::optional<std::int64_t> soft_punish_cache;
  std::vector<double> reward_weights;

  // Returns the number of rewards of an answer.
  std::size_t rewards() const {
    return reward_funcs.size() + (reward_command ? 1 : 0) + (reward_model_name_or_path ? 1 : 0);
  }

  void fields(auto& f) {
    f("reward_funcs", reward_funcs,
      "grpo, rloo, reinforce++, ppo: what rewards answers that are generated: exact_match or number (1 where "
      "the answer is the row's), regex (1 where reward_regex matches), length (below 0 for answers that come "
      "near max_completion_length).",
      or_one(), or_null());
    f("reward_command", reward_command,
      "grpo, rloo, reinforce++, ppo: a program that rewards answers that are generated, as a shell would "
      "start it; it reads and writes lines of JSON (docs/preferences.md).",
      not_empty());
    f("reward_timeout", reward_timeout,
      "grpo, rloo, reinforce++, ppo, reward_command: most seconds that it may take to its next reward; null: "
      "60.",
      above(0));
    f("reward_model_name_or_path", reward_model_name_or_path,
      "grpo, rloo, reinforce++, ppo: folder or id of a reward model that scores answers that are generated, "
      "with the same vocabulary.",
      is_path_or_hub_id(), not_empty());
    f("reward_regex", reward_regex, "grpo, rloo, reinforce++, ppo, regex: what an answer is to contain.",
      not_empty());
    f("soft_punish_cache", soft_punish_cache,
      "grpo, rloo, reinforce++, ppo, length: tokens before max_completion_length in which the reward falls "
      "from 0 to -1.",
      at_least(1));
    f("reward_weights", reward_weights,
      "grpo, rloo, reinforce++, ppo: a weight for each of reward_funcs, for reward_command and for the "
      "reward model, in this order; null: all are 1.",
      or_null());
  }
};

struct AnswerGeneration {
  std::optional<std::int64_t> num_iterations, max_completion_length, steps_per_generation, top_k;
  std::optional<double> top_p, min_p, repetition_penalty;

  // Returns the longest answer, in tokens.
  std::int64_t answer_length() const { return max_completion_length.value_or(512); }

  void fields(auto& f) {
    f("num_iterations", num_iterations,
      "grpo, rloo, reinforce++, ppo: steps in a row with the same answers; null: 1.", at_least(1));
    f("max_completion_length", max_completion_length,
      "distill, grpo, rloo, reinforce++, ppo: longest answer that is generated, in tokens, and what dr_grpo "
      "divides a "
      "row's sum by; null: 512.",
      at_least(1));
    f("steps_per_generation", steps_per_generation,
      "grpo, rloo, reinforce++, ppo: micro-batches of a rank that are generated at once; null: those of a "
      "step.",
      at_least(1));
    f("top_k", top_k,
      "distill, grpo, rloo, reinforce++, ppo: generate only from the k likeliest tokens; null or 0: from "
      "all.",
      at_least(0));
    f("top_p", top_p,
      "distill, grpo, rloo, reinforce++, ppo: generate only from the likeliest tokens that make up this "
      "probability; "
      "null: 1.",
      above(0), at_most(1));
    f("min_p", min_p,
      "distill, grpo, rloo, reinforce++, ppo: generate only from tokens at least this likely, relative to "
      "the "
      "likeliest; null: all.",
      at_least(0), at_most(1));
    f("repetition_penalty", repetition_penalty,
      "distill, grpo, rloo, reinforce++, ppo: above 1, tokens that already occurred become less likely; "
      "null: 1.",
      above(0));
  }
};

// Check rules between the rewards' settings. require_rewards: also that there is a reward.
void check_rewards(const ObjectiveConfig&, const Refuse&);
void require_rewards(const ObjectiveConfig&, const Refuse&);

}  // namespace ft
