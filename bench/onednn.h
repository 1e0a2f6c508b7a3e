// One matrix product through oneDNN 2.6 (Debian 12) or 3 (Debian 13), to compare with: ft itself does without
// it. On AVX-512 without bf16 the own kernel is four times as fast in bf16 and about as fast in f32, adds
// adapters in the same pass, and gives the same result for every number of threads.
#pragma once
#include <cstdint>
#include <memory>

#include "engine/cpu/kernels/products.h"

namespace ft::bench {

class OneDnn {
 public:
  OneDnn();
  ~OneDnn();

  // Computes the call and returns true; or false, having done nothing, when it cannot: several terms, alpha
  // other than 1, c another matrix, a type the CPU lacks, or more than `workspace_bytes` of scratch memory at
  // call.workspace.
  bool run(const cpu::ProductCall& call, std::int64_t workspace_bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ft::bench
