// What one step cost, and how it is shown: as a table for people, as JSON, and as a picture.
#pragma once
#include <string>

#include "app/profile/module_profile.h"
#include "engine/train/reports/config.h"

namespace ft {

struct StepProfile {
  std::string run, architecture;
  std::int64_t step = 0, tokens = 0;  // of all ranks
  int ranks = 1;                      // what follows is of rank 0
  double peak_flops = 0;              // a second, measured; 0: unknown
  double recompute_fwd_factor = 0;    // forward passes that count a second time (DeepSpeed's setting)
  Phases::Seconds phases{};
  double gaps = 0;  // seconds between operations, in which the device has nothing to do
  ModuleProfile modules;

  double seconds(Phase p) const { return phases[static_cast<std::size_t>(p)]; }
  double seconds() const;  // of the step
  double flops() const { return modules.flops() + recompute_fwd_factor * modules.forward.flops; }
  // As a share of the machine's limit; 0: unknown.
  double share_of_peak(double flops, double seconds) const {
    return seconds > 0 && peak_flops > 0 ? flops / seconds / peak_flops : 0;
  }
};

// The parts of a step, in their order.
inline constexpr std::array kStepPhases{Phase::data,     Phase::forward, Phase::recompute,
                                        Phase::backward, Phase::reduce,  Phase::step};

std::string as_text(const StepProfile&, const FlopsProfilerConfig&);
std::string as_json(const StepProfile&);
// Bars as wide as the time they took, parts below what they are part of.
std::string as_svg(const StepProfile&);

}  // namespace ft
