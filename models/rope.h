// Frequencies of rotary positions and their scalings, as in transformers' modeling_rope_utils, and their keys
// in config.json. Used by every family with rotary positions.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/files/json.h"
#include "engine/layers/attention/rotary.h"

namespace ft {

// Settings of rotary positions, including the kind of stretching beyond the trained length.
struct Rope {
  enum class Type : std::uint8_t {
    normal,
    linear,
    dynamic,
    llama3,
    yarn,
    longrope,
    proportional
  } type = Type::normal;
  std::int64_t head_dim = 0, max_position = 0;  // head_dim is R, the number of rotated columns
  double theta = 10000;
  double factor = 1;
  double original_max_position = 0;                  // llama3, yarn, longrope
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 1;                       // yarn, longrope: multiplies cos and sin
  double mscale_all_dim = 0;                         // see score_factor()
  bool truncate = true;                              // yarn: round the ramp's bounds to whole dimensions
  std::int64_t turning = 0;                          // proportional: pairs that rotate, the first ones
  // longrope, divisors of the frequencies (R / 2): for up to original_max_position tokens, and for longer
  // sequences.
  std::vector<double> short_factors = {}, long_factors = {};

  // Returns the factor of scores in DeepSeek's models with scaled positions: (0.1 mscale_all_dim ln(factor) +
  // 1)^2 (transformers' yarn_apply_mscale).
  double score_factor() const;
};

// Defaults and key names of a family's config class.
struct RopeUsual {
  double theta = 10000;
  double part = 1;     // share of a head's columns that are rotated
  bool parts = false;  // whether partial_rotary_factor may be below 1
  bool odd = false;    // whether the part may be an odd number R: then R + 1 columns are rotated
  double original_max_position = 0;  // longrope; 0: from rope_scaling, or max_position_embeddings
  const char *theta_key = "rope_theta", *part_key = "partial_rotary_factor";  // keys of transformers 4
};

// Reads both generations of config.json (v4: rope_theta, rope_scaling; v5: rope_parameters).
Rope read_rope(const JsonObject& config, std::int64_t head_dim, std::int64_t max_position,
               const RopeUsual& usual = {});
// Reads one object: rope_scaling, rope_parameters, or an entry that rope_parameters has for a type of layer.
// The caller sets in r the values that stand outside this object.
void read_rope_scaling(Rope& r, const JsonObject& scaling);

// Returns the inverse frequencies (R / 2) for sequences of up to `length` tokens. The length matters to
// `dynamic` and `longrope` only.
std::vector<float> inverse_frequencies(const Rope&, std::int64_t length);

Rotary make_rotary(const Rope&);

}  // namespace ft
