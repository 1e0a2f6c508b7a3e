// One matrix product through oneDNN 2.6 (Debian 12) or 3 (Debian 13). It drives matrix units (AMX), which
// ft's kernels do not, and there it multiplies bf16, one block of y in each of ft's threads: threads of its
// own would stay awake after a product and take the cores from what comes next. Everywhere else ft's kernels
// do everything: they add adapters in the same pass, and their sums do not depend on the number of threads or
// rows (docs/architecture.md).
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

  // Computes the call and returns true; or false, having done nothing, when it cannot: several terms, alpha
  // other than 1, a type the CPU lacks, or more than `workspace_bytes` of scratch memory at call.workspace.
  // onto: y's old value is one more summand, beside c. The sum is rounded once. The first call of a shape
  // makes its code: about a millisecond, some KB, kept.
  bool run(const ProductCall& call, bool onto, std::int64_t workspace_bytes);
  // Whether run() would return true.
  bool can(const ProductCall& call, bool onto, std::int64_t workspace_bytes);

 private:
  struct State;
  struct Prepared;
  std::optional<Prepared> prepare(const ProductCall& call, bool onto, std::int64_t workspace_bytes);

  std::unique_ptr<State> state_;
};

// Operand types that Products hands to oneDNN.
struct OneDnnTypes {
  bool f32 = false, bf16 = false;
  bool has(DType t) const { return (t == DType::f32 && f32) || (t == DType::bf16 && bf16); }
};
// bf16 where the CPU has AMX for it.
OneDnnTypes onednn_types();

}  // namespace ft::cpu
