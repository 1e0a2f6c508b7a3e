// warmup_stable_decay: transformers' schedule that rises, stays and falls, each in its shape.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"
#include "engine/train/schedules/warmed_up.h"

namespace ft::schedules {
namespace {

enum class Ramp : std::uint8_t { linear, cosine, one_minus_sqrt };
constexpr auto words(Ramp) {
  using enum Ramp;
  return to_words<Ramp>({{linear, "linear"}, {cosine, "cosine"}, {one_minus_sqrt, "1-sqrt"}});
}

struct WarmupStableDecay {
  std::int64_t num_decay_steps = 0;
  std::optional<std::int64_t> num_stable_steps;
  Ramp warmup_type = Ramp::linear, decay_type = Ramp::cosine;
  double min_lr_ratio = 0, num_cycles = 0.5;

  void fields(auto& f) {
    f("num_decay_steps", num_decay_steps, "Steps of the decay.", required(), at_least(0));
    f("num_stable_steps", num_stable_steps, "Steps at the full rate; null: all between.", at_least(0));
    f("warmup_type", warmup_type, "Shape of the warm-up.");
    f("decay_type", decay_type, "Shape of the decay.");
    f("min_lr_ratio", min_lr_ratio, "The first and the last rate, as a fraction of learning_rate.",
      at_least(0));
    f("num_cycles", num_cycles, "Waves of a decay by cosine.", at_least(0));
  }
  double rate(std::int64_t step, const Run&) const;
};

double WarmupStableDecay::rate(std::int64_t step, const Run& run) const {
  const std::int64_t stable = num_stable_steps.value_or(run.total - run.warmup - num_decay_steps);
  const auto part = [&](std::int64_t begin, std::int64_t steps) {
    return static_cast<double>(step - begin) / static_cast<double>(std::max<std::int64_t>(1, steps));
  };
  if (step < run.warmup) {
    const double x = part(0, run.warmup);
    const double factor = warmup_type == Ramp::linear   ? x
                          : warmup_type == Ramp::cosine ? 0.5 * (1 - std::cos(std::numbers::pi * x))
                                                        : 1 - std::sqrt(1 - x);
    return run.rate * raised(factor, min_lr_ratio);
  }
  if (step < run.warmup + stable) return run.rate;
  if (step >= run.warmup + stable + num_decay_steps) return run.rate * min_lr_ratio;
  const double x = part(run.warmup + stable, num_decay_steps);
  const double factor = decay_type == Ramp::linear   ? 1 - x
                        : decay_type == Ramp::cosine ? cosine(num_cycles, x)
                                                     : 1 - std::sqrt(x);
  return run.rate * raised(factor, min_lr_ratio);
}

}  // namespace

const ScheduleKind kWarmupStableDecay{"warmup_stable_decay", make<WarmupStableDecay>};

}  // namespace ft::schedules
