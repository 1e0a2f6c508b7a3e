// The kernels of every target, as tables of plain functions, through which other code reaches the per-target
// namespaces. Arguments are only pointers and numbers, never a class or template of the standard library.
#pragma once
#include "engine/cpu/kernels/attention.h"
#include "engine/cpu/kernels/leaf.h"
#include "engine/cpu/kernels/products.h"

namespace ft::cpu {

struct Kernels {
  const ProductKernels& products;
  const AttentionForward& attention;
  const AttentionBackward& attention_backward;
  const AttentionRanges& attention_ranges;
  const LeafKernels& leaf;
};

// kBf16Dot: bf16 is multiplied directly (AVX512_BF16), two elements a word; otherwise it is first converted
// to f32.
namespace avx2 {
constexpr bool kBf16Dot = false;
const Kernels& kernels();
}  // namespace avx2
namespace avx512 {
constexpr bool kBf16Dot = false;
const Kernels& kernels();
}  // namespace avx512
namespace avx512_bf16 {
constexpr bool kBf16Dot = true;
const Kernels& kernels();
}  // namespace avx512_bf16

}  // namespace ft::cpu
