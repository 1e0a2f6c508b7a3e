// Tables of cos and sin for rotary positions (Su et al. 2021) and their scalings.
#pragma once
#include <vector>

#include "engine/nn/kv_cache.h"
#include "models/llama/config.h"

namespace ft::llama {

// Inverse frequencies (D / 2) for sequences of up to `length` tokens, which matters to `dynamic` only.
std::vector<float> inverse_frequencies(const Config&, std::int64_t length);

// cos and sin of position * frequency, times the attention factor: (positions, D / 2) each, row-major, in f32
// as transformers computes them.
struct RopeTable {
  std::vector<float> cos, sin;
  std::vector<float> frequencies;  // (D / 2)
};
// Makes the table one of at least so many positions, for sequences of up to that length. What is there
// already stays: all sequences share it, but for those that `dynamic` stretches.
void cover(RopeTable&, const Config&, std::int64_t positions);

// The same for single tokens: one row for each new token of every sequence. `dynamic` follows transformers
// with a cache: a token is rotated by the frequencies of its sequence's length when it came, and stays so.
RopeTable rope_rows(const Config&, const Continuation&);

}  // namespace ft::llama
