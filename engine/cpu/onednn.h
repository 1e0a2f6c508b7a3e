// A matrix product through oneDNN 2.6 (Debian 12) or 3 (Debian 13). oneDNN uses matrix units (AMX), which
// ft's kernels do not. On CPUs with AMX it multiplies bf16, one block of y in each of ft's threads: oneDNN's
// own threads would stay awake after a product and take the cores from the next work. For everything else
// ft's kernels are used: they add adapters in the same pass, and their sums do not depend on the number of
// threads or rows (docs/architecture.md).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/cpu/kernels/products.h"

namespace ft::cpu {

class OneDnn {
 public:
  OneDnn();
  ~OneDnn();

  // Computes the call and returns true; or does nothing and returns false if it cannot: several terms, alpha
  // other than 1, a type that the CPU lacks, or more than `workspace_bytes` of scratch memory at
  // call.workspace. onto: y's old value is a summand too, in addition to c. The sum is rounded once. The
  // first call of a shape generates its code, which takes about a millisecond and some KB, and is kept.
  bool run(const ProductCall& call, bool onto, std::int64_t workspace_bytes);
  // True if run() would return true.
  bool can(const ProductCall& call, bool onto, std::int64_t workspace_bytes);

 private:
  struct State;
  struct Prepared;
  std::optional<Prepared> prepare(const ProductCall& call, bool onto, std::int64_t workspace_bytes);

  std::unique_ptr<State> state_;
};

// Operand types that Products gives to oneDNN.
struct OneDnnTypes {
  bool f32 = false, bf16 = false;
  bool has(DType t) const { return (t == DType::f32 && f32) || (t == DType::bf16 && bf16); }
};
// bf16 if the CPU has AMX for it.
OneDnnTypes onednn_types();

}  // namespace ft::cpu
