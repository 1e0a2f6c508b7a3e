// Detection by cpuid. The operating system must save the vector registers too (xgetbv);
// __builtin_cpu_supports includes that.
#include "engine/cpu/target.h"

#include "engine/core/error.h"

namespace ft::cpu {

const char* name_of(Target t) {
  switch (t) {
    case Target::avx2:
      return "avx2";
    case Target::avx512:
      return "avx512";
    case Target::avx512_bf16:
      return "avx512_bf16";
  }
  return "";
}

std::vector<Target> usable_targets() {
  __builtin_cpu_init();
  const bool basic =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (!basic)
    throw UserError(
        Exit::hardware,
        "this CPU lacks the AVX2, FMA or F16C instructions, which ft needs (Intel Haswell of 2013, "
        "AMD Excavator of 2015, or newer); in a virtual machine, pass the host's CPU through");
  std::vector<Target> targets{Target::avx2};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    targets.push_back(Target::avx512);
    if (__builtin_cpu_supports("avx512bf16")) targets.push_back(Target::avx512_bf16);
  }
  return targets;
}

Target best_target() { return usable_targets().back(); }

const Kernels& kernels_of(Target t) {
  switch (t) {
    case Target::avx512_bf16:
      return avx512_bf16::kernels();
    case Target::avx512:
      return avx512::kernels();
    case Target::avx2:
      break;
  }
  return avx2::kernels();
}

}  // namespace ft::cpu
