#include "engine/cpu/kernels/leaf.h"

#include "engine/cpu/kernels/leaf_functions.h"

namespace ft::cpu::FT_TARGET {
namespace {

template <class... Op>
consteval LeafKernels table(OpList<Op...>) {
  return {OpFunction<Op, Team>{compute}...};
}

}  // namespace

extern const LeafKernels leaf_kernels;
constexpr LeafKernels leaf_kernels = table(LeafOps{});

}  // namespace ft::cpu::FT_TARGET
