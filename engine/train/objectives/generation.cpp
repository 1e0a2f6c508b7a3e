#include "engine/train/objectives/generation.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"

namespace ft {

void check_rewards(const ObjectiveConfig& c, const Refuse& refuse) {
  const auto rewards = [&](RewardCheck check) { return std::ranges::count(c.reward_funcs, check); };
  const auto belongs = [&](bool given, bool wanted, const char* name, const std::string& to) {
    if (given && !wanted) refuse(str("objective.", name, ": has no effect without ", to));
    if (!given && wanted) refuse(str("objective.", name, ": ", to, " needs it"));
  };
  belongs(c.reward_regex.has_value(), rewards(RewardCheck::regex) > 0, "reward_regex",
          "regex in objective.reward_funcs");
  belongs(c.soft_punish_cache.has_value(), rewards(RewardCheck::length) > 0, "soft_punish_cache",
          "length in objective.reward_funcs");
  if (c.reward_timeout)
    belongs(true, c.reward_command.has_value(), "reward_timeout", "objective.reward_command");
  for (const RewardCheck check : c.reward_funcs)
    if (rewards(check) > 1)
      refuse(str("objective.reward_funcs: ", name_of(check), " is there twice; give it a weight"));
  if (c.rewards() == 0) return;
  if (!c.reward_weights.empty() && c.reward_weights.size() != c.rewards())
    refuse(str("objective.reward_weights: ", c.reward_weights.size(), " of them for ", c.rewards(),
               " rewards; give one for each"));
  if (c.soft_punish_cache.value_or(0) > c.answer_length())
    refuse(
        str("objective.soft_punish_cache: is at most objective.max_completion_length, ", c.answer_length()));
}

void require_rewards(const ObjectiveConfig& c, const Refuse& refuse) {
  if (c.rewards() == 0)
    refuse(str("objective.type: ", name_of(c.type),
               " answers prompts itself; set what rewards the answers: objective.reward_funcs, "
               "reward_command or reward_model_name_or_path"));
}

}  // namespace ft
