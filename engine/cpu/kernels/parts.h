// What a thread holds of the terms of a sum of products while it works through the summed dimension.
#pragma once
#include "engine/cpu/kernels/words.h"

namespace ft::cpu::FT_TARGET {
namespace {

// A run of words of one term: what is held of b's block, and where a's words are.
struct Part {
  const ProductTerm* term;
  i64 from, words;     // in the term's summed dimension
  i64 at;              // first of its words in the block of b
  const std::byte* a;  // word (row, k) at a + row * row_bytes + k * word_bytes
  i64 row_bytes, word_bytes;
};
// Words of a part of a term's summed dimension, in elements; the last word may be half full.
template <class T>
i64 elements(const Part& p) {
  return smaller(p.words * kPack<T>, p.term->k - p.from * kPack<T>);
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
