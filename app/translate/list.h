// The programs that are translated, in the order of help and of docs/import.md.
#pragma once
#include <array>

#include "app/translate/program.h"

namespace ft::translate {

extern const Program kAxolotl, kLlamaFactory, kTrlSft, kTrlDpo, kTrlKto, kTrlReward, kTrlGrpo, kTrlRloo,
    kTrlOrpo, kTrlCpo, kTorchtune, kChatSft, kChatReward, kChatDpo, kChatPpo, kRunTranslation;

inline constexpr std::array kPrograms{&kAxolotl,    &kLlamaFactory, &kTrlSft,    &kTrlDpo,
                                      &kTrlKto,     &kTrlReward,    &kTrlGrpo,   &kTrlRloo,
                                      &kTrlOrpo,    &kTrlCpo,       &kTorchtune, &kChatSft,
                                      &kChatReward, &kChatDpo,      &kChatPpo,   &kRunTranslation};

}  // namespace ft::translate
