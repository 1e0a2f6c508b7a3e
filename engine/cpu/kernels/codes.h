// What the forms of coded matrices have in common: an operand Q has codes, and a scale for every block.
//   scale_of(q, block)           the scale
//   decode(T* to, q, at, n)      elements [at, at + n), scale * what a code stands for, rounded to T
//   Codes<Q>                     what whole words of codes stand for
#pragma once
#include "engine/cpu/kernels/tile.h"

namespace ft::cpu::FT_TARGET {
namespace {

template <class Q>
struct Codes;

}  // namespace
}  // namespace ft::cpu::FT_TARGET
