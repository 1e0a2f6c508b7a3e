// Operands of operations. A role states how an operation uses a tensor. Code that checks results or counts
// bytes reads it.
#pragma once
#include <concepts>

#include "engine/core/tensor.h"

namespace ft::op {

// A tensor operand. It has no default value: an operand that may be left out is declared with `= Tensor{}`.
struct Operand : Tensor {
  template <std::convertible_to<Tensor> T>
  Operand(const T& t) : Tensor(t) {}
};

// kPasses: number of times that an ideal implementation moves the tensor. kWritten: true for a result.
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

// Floating point operations: products and attention have a flops(), which counts two for a multiply-add.
// Elementwise work is not counted, as usual for "model FLOPs".
template <class Op>
double flops_of(const Op& op) {
  if constexpr (requires { op.flops(); })
    return op.flops();
  else
    return 0;
}

inline double bytes_of(const Tensor& t) { return t ? double(t.bytes()) : 0; }
// Bytes that an ideal implementation reads and writes: the operands' bytes by their roles, unless the
// operation has a bytes().
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
