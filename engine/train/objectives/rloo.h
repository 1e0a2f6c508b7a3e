// Settings of REINFORCE with a leave-one-out baseline.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/rules.h"
#include "engine/train/objectives/kind.h"

namespace ft {

inline constexpr double kRlooBeta = 0.05;  // default of objective.beta

struct RlooSettings {
  std::optional<bool> normalize_advantages;
  std::vector<double> reward_clip_range;

  void fields(auto& f) {
    f("normalize_advantages", normalize_advantages,
      "rloo, reinforce++: bring the advantages of a generation to mean 0 and deviation 1; null: false, "
      "of reinforce++ true.");
    f("reward_clip_range", reward_clip_range,
      "rloo, reinforce++: rewards of answers are cut to this range, [least, most]; null: they are not.",
      or_null());
  }
};

// Throws if reward_clip_range is no range.
void check_clip_range(const RlooSettings&, const Refuse&);

// Returns each reward less the mean of the other rewards of its group. NaN: no reward, or no other.
std::vector<double> leave_one_out(const std::vector<double>& rewards, std::int64_t group);

}  // namespace ft
