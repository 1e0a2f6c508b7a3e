// The kernels of every target, as tables of plain functions: the way out of the per-target namespaces. What
// crosses takes pointers and numbers only, never a class or template of the standard library.
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

// kBf16Dot: bf16 is multiplied as it is (AVX512_BF16), two elements a word; else it becomes f32 first.
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
