// Which of the compiled sets of kernels this CPU can run. One binary holds all of them.
#pragma once
#include <vector>

#include "engine/cpu/kernels/kernels.h"

namespace ft::cpu {

enum class Target { avx2, avx512, avx512_bf16 };

const char* name_of(Target);

// What this CPU and its operating system can run, the best last. UserError(Exit::hardware) when it lacks
// AVX2, FMA or F16C.
std::vector<Target> usable_targets();
Target best_target();

const Kernels& kernels_of(Target);

}  // namespace ft::cpu
