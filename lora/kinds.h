// The kinds of adapters, in the order of messages and help. Each is described in its own file.
#pragma once
#include <array>

#include "lora/kind.h"

namespace ft::lora::kinds {

extern const AdapterKind kMiss, kHira, kShira, kOft;
extern const AdapterKind kAdaLora, kVera, kLoHa, kLoKr, kIa3, kBoft;

inline constexpr std::array kKinds{&kLora, &kMiss, &kHira, &kShira, &kOft};
inline constexpr std::array kReadOnly{&kAdaLora, &kVera, &kLoHa, &kLoKr, &kIa3, &kBoft};

}  // namespace ft::lora::kinds
