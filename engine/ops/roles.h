// Operands of operations. A role says what an operation does with a tensor; what checks results and counts
// bytes reads it from there.
#pragma once
#include <concepts>

#include "engine/core/tensor.h"

namespace ft::op {

// There is no default: an operand that may be left out says so, `= Tensor{}`.
struct Operand : Tensor {
  template <std::convertible_to<Tensor> T>
  Operand(const T& t) : Tensor(t) {}
};

// kPasses: how often an ideal implementation moves the tensor. kWritten: it is a result.
struct In : Operand {
  using Operand::Operand;
  static constexpr int kPasses = 1;
  static constexpr bool kWritten = false;
};
struct Out : Operand {  // overwritten
  using Operand::Operand;
  static constexpr int kPasses = 1;
  static constexpr bool kWritten = true;
};
struct Acc : Operand {  // +=
  using Operand::Operand;
  static constexpr int kPasses = 2;
  static constexpr bool kWritten = true;
};
struct InOut : Operand {  // read, then overwritten
  using Operand::Operand;
  static constexpr int kPasses = 2;
  static constexpr bool kWritten = true;
};

// Floating point operations: products and attention have a flops() of their own, two for a multiply-add;
// elementwise work is not counted, as in the usual "model FLOPs".
template <class Op>
double flops_of(const Op& op) {
  if constexpr (requires { op.flops(); })
    return op.flops();
  else
    return 0;
}

inline double bytes_of(const Tensor& t) { return t ? double(t.bytes()) : 0; }
// Bytes that an ideal implementation reads and writes: its operands' by their roles, unless the operation
// has a bytes() of its own.
template <class Op>
double bytes_of(const Op& op) requires requires {
  Op::kName;
}
{
  if constexpr (requires { op.bytes(); }) {
    return op.bytes();
  } else {
    double sum = 0;
    op.operands([&](const char*, const auto& operand) {
      sum += operand.kPasses * bytes_of(static_cast<const Tensor&>(operand));
    });
    return sum;
  }
}

}  // namespace ft::op
