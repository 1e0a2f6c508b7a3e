// The register tile: the innermost loop of all matrix products. 6 rows by 4 vectors (AVX2: 2) of sums, one
// row of b and one broadcast word of a fill 29 of 32 (15 of 16) registers, and every loaded word is used
// often enough to keep both multipliers busy.
#pragma once
#include <cstddef>

#include "engine/cpu/kernels/words.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr int kTileRows = 6;
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;
constexpr i64 kTile = kTileVectors * kLanes;  // columns

// One word of a left operand, at any address.
inline Word word_at(const std::byte* p) {
  Word w;
  __builtin_memcpy(&w, p, sizeof w);
  return w;
}

// acc (Rows, Vectors * kLanes) += a b. a: `words` words a row, rows lda bytes apart; b: (words, at least
// Vectors * kLanes) words, rows ldb words apart.
template <class T, int Rows, int Vectors>
inline void accumulate(Vec (&acc)[Rows][Vectors], const std::byte* a, i64 lda, const Word* b, i64 ldb,
                       i64 words) {
  for (i64 k = 0; k < words; ++k) {
    WordVec row[Vectors];
    for (int j = 0; j < Vectors; ++j) row[j] = load_words(b + k * ldb + j * kLanes);
    for (int i = 0; i < Rows; ++i) {
      const WordVec x = splat_word(word_at(a + i * lda + k * 4));
      for (int j = 0; j < Vectors; ++j) acc[i][j] = multiply_add<T>(acc[i][j], x, row[j]);
    }
  }
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
