// Every set of kernels this machine can run, the emulated AVX512_BF16 included: tests go through all of them.
#pragma once
#include <string>
#include <vector>

#include "engine/cpu/target.h"

namespace ft::cpu {

struct NamedKernels {
  std::string name;
  const Kernels& kernels;
  bool bf16_dot;  // bf16 products as AVX512_BF16 does them
};

inline std::vector<NamedKernels> all_kernels() {
  std::vector<NamedKernels> all;
  for (const Target t : usable_targets())
    all.push_back({name_of(t), kernels_of(t), t == Target::avx512_bf16});
  if (all.size() > 1) all.push_back({"avx512_bf16_emulated", avx512_bf16_emulated::kernels(), true});
  return all;
}

}  // namespace ft::cpu
