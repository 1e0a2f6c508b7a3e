// Frequencies of rotary positions and their scalings, as transformers' modeling_rope_utils has them, and how
// config.json names them; for every family that rotates.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/files/json.h"
#include "engine/layers/rotary.h"

namespace ft {

// How far positions are stretched beyond those the model was trained on.
struct Rope {
  enum class Type : std::uint8_t { normal, linear, dynamic, llama3, yarn, longrope } type = Type::normal;
  std::int64_t head_dim = 0, max_position = 0;  // R, the columns that are rotated; max_position_embeddings
  double theta = 10000;
  double factor = 1;
  double original_max_position = 0;                  // llama3, yarn, longrope
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 1;                       // yarn, longrope: multiplies cos and sin
  bool truncate = true;                              // yarn: whole bounds of the ramp
  // longrope, divisors of the frequencies (R / 2): up to original_max_position tokens, and beyond.
  std::vector<double> short_factors = {}, long_factors = {};
};

// What a family's config class assumes, and calls otherwise.
struct RopeUsual {
  double theta = 10000;
  double part = 1;                   // of a head's columns that are rotated
  bool parts = false;                // whether partial_rotary_factor may be below 1
  double original_max_position = 0;  // longrope; 0: as rope_scaling says, or max_position_embeddings
  const char *theta_key = "rope_theta", *part_key = "partial_rotary_factor";  // of transformers 4
};

// Reads either generation of config.json (v4: rope_theta, rope_scaling; v5: rope_parameters).
Rope read_rope(const JsonObject& config, std::int64_t head_dim, std::int64_t max_position,
               const RopeUsual& usual = {});
// From one of these objects: rope_scaling, rope_parameters, or one of those that rope_parameters holds by
// layer type. r has what was said around it.
void read_rope_scaling(Rope& r, const JsonObject& scaling);

// Inverse frequencies (R / 2) for sequences of up to `length` tokens, which matters to `dynamic` and
// `longrope` only.
std::vector<float> inverse_frequencies(const Rope&, std::int64_t length);

Rotary make_rotary(const Rope&);

}  // namespace ft
