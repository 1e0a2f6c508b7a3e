// The sets of kernels that this CPU can run. One binary contains all sets.
#pragma once
#include <vector>

#include "engine/cpu/kernels/kernels.h"

namespace ft::cpu {

enum class Target { avx2, avx512, avx512_bf16 };

const char* name_of(Target);

// Targets that this CPU and its operating system can run, the best last. Throws UserError (hardware) if it
// lacks AVX2, FMA or F16C.
std::vector<Target> usable_targets();
Target best_target();

const Kernels& kernels_of(Target);

}  // namespace ft::cpu
