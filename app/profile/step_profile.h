// The costs of one step, and texts of them: a table for people, JSON, and a picture (SVG).
#pragma once
#include <string>

#include "app/profile/module_profile.h"
#include "engine/train/reports/config.h"

namespace ft {

struct StepProfile {
  std::string run, architecture;
  std::int64_t step = 0, tokens = 0;  // of all ranks
  int ranks = 1;                      // the members below are rank 0's
  double peak_flops = 0;              // FLOP/s of one rank, measured; 0: unknown
  double recompute_fwd_factor = 0;    // part of the forward FLOPs to count twice (DeepSpeed's setting)
  Phases::Seconds phases{};
  double gaps = 0;  // seconds between operations, when the device is idle
  ModuleProfile modules;

  double seconds(Phase p) const { return phases[static_cast<std::size_t>(p)]; }
  double seconds() const;  // of the step
  double flops() const { return modules.flops() + recompute_fwd_factor * modules.forward.flops; }
  // Returns the FLOP/s as a share of peak_flops; 0: unknown.
  double share_of_peak(double flops, double seconds) const {
    return seconds > 0 && peak_flops > 0 ? flops / seconds / peak_flops : 0;
  }
};

// The parts of a step, in their order.
inline constexpr std::array kStepPhases{Phase::data,     Phase::forward, Phase::recompute,
                                        Phase::backward, Phase::reduce,  Phase::step};

std::string as_text(const StepProfile&, const FlopsProfilerConfig&);
std::string as_json(const StepProfile&);
// Draws bars as wide as their time, with the parts of a module below it.
std::string as_svg(const StepProfile&);

}  // namespace ft
