// Common interface of coded matrices: an operand Q has codes, and a scale for every block.
//   scale_of(q, block)           the scale
//   decode(T* to, q, at, n)      elements [at, at + n): scale times the code's value, rounded to T
//   Codes<Q>                     values of complete words of codes
#pragma once
#include "engine/cpu/kernels/tile.h"

namespace ft::cpu::FT_TARGET {
namespace {

template <class Q>
struct Codes;

}  // namespace
}  // namespace ft::cpu::FT_TARGET
