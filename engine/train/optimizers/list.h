// The optimizers, in the order of messages and help. Each is described in its own file.
#pragma once
#include <array>

#include "engine/train/optimizers/kind.h"

namespace ft::optimizers {

extern const OptimizerKind kAdamW, kAdamW8bit, kPagedAdamW, kPagedAdamW8bit, kLion, kLion8bit, kPagedLion,
    kPagedLion8bit, kAdEMAMix, kAdEMAMix8bit, kPagedAdEMAMix, kPagedAdEMAMix8bit, kSgd, kAdagrad, kRmsProp,
    kAdafactor, kMuon, kOneBitAdam;

inline constexpr std::array kOptimizers{
    &kAdamW,     &kAdamW8bit,     &kPagedAdamW, &kPagedAdamW8bit, &kLion,          &kLion8bit,
    &kPagedLion, &kPagedLion8bit, &kAdEMAMix,   &kAdEMAMix8bit,   &kPagedAdEMAMix, &kPagedAdEMAMix8bit,
    &kSgd,       &kAdagrad,       &kRmsProp,    &kAdafactor,      &kMuon,          &kOneBitAdam};

}  // namespace ft::optimizers
