// Coded matrices of operations as the operands of kernels.
#pragma once
#include "engine/cpu/kernels/products.h"
#include "engine/ops/products.h"

namespace ft::cpu {

FourBitOperand operand_of(const FourBitMatrix&);
Int8Operand operand_of(const Int8Matrix&);
Fp8Operand operand_of(const Fp8Matrix&);

}  // namespace ft::cpu
