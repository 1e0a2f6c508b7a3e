// The objectives, in the order of messages and help. Each is described in its own file.
#pragma once
#include <array>

#include "engine/train/objectives/kind.h"

namespace ft::objectives {

extern const ObjectiveKind kSft, kDpo, kKto, kOrpo, kCpo, kSimpo, kReward, kDistill, kGrpo, kRloo, kReinforce,
    kPpo, kClassify, kEmbed;

inline constexpr std::array kObjectives{&kSft,     &kDpo,  &kKto,  &kOrpo,      &kCpo, &kSimpo,    &kReward,
                                        &kDistill, &kGrpo, &kRloo, &kReinforce, &kPpo, &kClassify, &kEmbed};

}  // namespace ft::objectives
