// Settings of group relative policy optimization.
#pragma once
#include <cstdint>
#include <optional>

#include "engine/core/rules.h"
#include "engine/train/objectives/kind.h"

namespace ft {

constexpr auto words(ScaleRewards) {
  using enum ScaleRewards;
  return to_words<ScaleRewards>({{group, "group"}, {batch, "batch"}, {none, "none"}});
}

enum class SamplingLevel : std::uint8_t { token, sequence };
constexpr auto words(SamplingLevel) {
  using enum SamplingLevel;
  return to_words<SamplingLevel>({{token, "token"}, {sequence, "sequence"}});
}

struct GrpoSettings {
  std::optional<double> delta;
  std::optional<ScaleRewards> scale_rewards;
  std::optional<SamplingLevel> importance_sampling_level;
  std::optional<bool> use_bias_correction_kl;
  std::optional<double> sapo_temperature_pos, sapo_temperature_neg;

  void fields(auto& f) {
    f("delta", delta, "grpo: the largest ratio that counts for any answer; null: none.", above(0));
    f("scale_rewards", scale_rewards,
      "grpo: advantages are divided by the deviation of their group's rewards (group, the default), of the "
      "step's (batch), or not (none).");
    f("importance_sampling_level", importance_sampling_level,
      "grpo: a ratio for each token (null), or the mean of a sequence's (GSPO).");
    f("use_bias_correction_kl", use_bias_correction_kl, "grpo: multiply the KL by the ratio; null: true.");
    f("sapo_temperature_pos", sapo_temperature_pos,
      "grpo, sapo: steepness of the gate around ratio 1, of answers with an advantage above 0; null: 1.",
      above(0));
    f("sapo_temperature_neg", sapo_temperature_neg,
      "grpo, sapo: steepness of the gate, of the other answers; null: 1.05.", above(0));
  }
};

}  // namespace ft
