// The schedules, in the order of messages and help: transformers', torch's, then DeepSpeed's. Each is
// described in a file of this folder.
#pragma once
#include <array>

#include "engine/train/schedules/kind.h"

namespace ft::schedules {

extern const ScheduleKind kLinear, kCosine, kCosineWithRestarts, kCosineWithMinLr, kCosineWarmupWithMinLr,
    kPolynomial, kConstant, kConstantWithWarmup, kInverseSqrt, kWarmupStableDecay, kReduceLrOnPlateau,
    kGreedy, kMultiStep, kWarmupLr, kWarmupDecayLr, kWarmupCosineLr, kOneCycle, kLrRangeTest;

inline constexpr std::array kSchedules{&kLinear,
                                       &kCosine,
                                       &kCosineWithRestarts,
                                       &kCosineWithMinLr,
                                       &kCosineWarmupWithMinLr,
                                       &kPolynomial,
                                       &kConstant,
                                       &kConstantWithWarmup,
                                       &kInverseSqrt,
                                       &kWarmupStableDecay,
                                       &kReduceLrOnPlateau,
                                       &kGreedy,
                                       &kMultiStep,
                                       &kWarmupLr,
                                       &kWarmupDecayLr,
                                       &kWarmupCosineLr,
                                       &kOneCycle,
                                       &kLrRangeTest};

}  // namespace ft::schedules
