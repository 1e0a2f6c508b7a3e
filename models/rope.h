// Frequencies of rotary positions and their scalings, as transformers' modeling_rope_utils has them, and how
// config.json names them; for every family that rotates.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/io/json.h"
#include "engine/nn/rotary.h"

namespace ft {

// How far positions are stretched beyond those the model was trained on.
struct Rope {
  enum class Type : std::uint8_t { normal, linear, dynamic, llama3, yarn } type = Type::normal;
  std::int64_t head_dim = 0, max_position = 0;  // D; max_position_embeddings
  double theta = 10000;
  double factor = 1;
  double original_max_position = 0;                  // llama3, yarn
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 1;                       // yarn: multiplies cos and sin
  bool truncate = true;                              // yarn: whole bounds of the ramp
};

// Reads either generation of config.json (v4: rope_theta, rope_scaling; v5: rope_parameters).
Rope read_rope(const JsonObject& config, std::int64_t head_dim, std::int64_t max_position);

// Inverse frequencies (D / 2) for sequences of up to `length` tokens, which matters to `dynamic` only.
std::vector<float> inverse_frequencies(const Rope&, std::int64_t length);

Rotary make_rotary(const Rope&);

}  // namespace ft
