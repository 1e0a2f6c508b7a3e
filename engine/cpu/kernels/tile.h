// The register tile: the innermost loop of all matrix products. With AVX-512, 6 rows by 4 vectors of sums,
// one row of b and one broadcast word of a fill 29 of 32 registers (AVX2: 6 by 2, 15 of 16), and every loaded
// word is used often enough to keep both multipliers busy. Narrow results use taller tiles.
#pragma once
#include <cstddef>

#include "engine/cpu/kernels/words.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr int kTileVectors = kLanes == 16 ? 4 : 2;
constexpr i64 kTile = kTileVectors * kLanes;  // columns

// Rows of a tile that is `vectors` wide; 48 is a multiple of all of them.
constexpr int tile_rows(int vectors) {
  if (kLanes == 16) return vectors == 4 ? 6 : vectors == 3 ? 8 : 12;
  return vectors == 2 ? 6 : 12;
}

// Loads a word of a left operand from any address.
inline Word word_at(const std::byte* p) {
  Word w;
  __builtin_memcpy(&w, p, sizeof w);
  return w;
}

// acc (Rows, Vectors * kLanes) += a b. Word (i, k) of a is at a + i * row + k * step bytes; b is (words, at
// least Vectors * kLanes) words, with rows of ldb words. Here, and in the code that clears and stores acc,
// loops over it are unrolled early: otherwise gcc keeps a copy of it in memory in addition to the registers.
template <class T, int Rows, int Vectors>
[[gnu::always_inline]] inline void accumulate(Vec (&acc)[Rows][Vectors], const std::byte* a, i64 row,
                                              i64 step, const Word* b, i64 ldb, i64 words) {
  for (i64 k = 0; k < words; ++k, a += step, b += ldb) {
    WordVec right[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      right[j] = load_words(b + j * kLanes);
      __builtin_prefetch(b + 8 * ldb + j * kLanes);  // panels stream from the second-level cache
    }
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
      const WordVec left = splat_word(word_at(a + i * row));
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) acc[i][j] = multiply_add<T>(acc[i][j], left, right[j]);
    }
  }
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
