// All sets of kernels that this machine can run, including the AVX-512 sets with stand-ins for its
// instructions. Tests run each of them.
#pragma once
#include <string>
#include <vector>

#include "engine/cpu/target.h"

namespace ft::cpu {

namespace avx512_bf16_on_avx2 {  // see tests/avx512_on_avx2
const Kernels& kernels();
}

struct NamedKernels {
  std::string name;
  const Kernels& kernels;
  bool bf16_dot;  // bf16 products are computed as by AVX512_BF16
};

inline std::vector<NamedKernels> all_kernels() {
  std::vector<NamedKernels> all;
  for (const Target t : usable_targets())
    all.push_back({name_of(t), kernels_of(t), t == Target::avx512_bf16});
  all.push_back({"avx512_bf16_on_avx2", avx512_bf16_on_avx2::kernels(), true});
  return all;
}

}  // namespace ft::cpu
