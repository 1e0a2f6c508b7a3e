// Computes the goldens on the CPU.
#include "engine/cpu/cpu_ops.h"
#include "tests/models/golden_case.h"

namespace ft::test {

std::unique_ptr<Ops> golden_ops() {
  return std::make_unique<cpu::CpuOps>(1);  // more threads cost more than they gain
}

}  // namespace ft::test
