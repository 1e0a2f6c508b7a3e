// op::Products on the CPU: chooses between ft's kernel and oneDNN, and owns the memory in which both work, so
// that a step allocates nothing.
#pragma once
#include "engine/core/arena.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/cpu/onednn.h"
#include "engine/ops/ops.h"

namespace ft::cpu {

class Products {
 public:
  static constexpr std::size_t kMostTerms = 16;

  // Throws UserError (memory) if there is not enough memory for the workspace.
  Products(const ProductKernels&, Team&, OneDnnTypes = onednn_types(), Sums = Sums::in_one_order);

  void run(const op::Products&);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  void run_with_onednn(const ProductCall& call);

  const ProductKernels& kernels_;
  OneDnnTypes onednn_types_;
  OneDnn onednn_;
  Team& team_;
  Sums sums_;
  std::int64_t workspace_bytes_;
  Buffer workspace_;
};

}  // namespace ft::cpu
