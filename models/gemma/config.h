// The config.json of Gemma 2 and of Gemma 3's text model.
#pragma once
#include <optional>

#include "models/decoder/config.h"

namespace ft::gemma {

struct Config : decoder::Config {
  float query_pre_attn_scalar = 256;
  float score_cap = 0, logit_cap = 0;  // 0: none
  std::optional<Rope> local_rope;      // rotation of layers with a window, if it differs
};

// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::string& config_json);

// Returns sqrt(width), rounded to the dtype of the computation.
float embedding_scale(std::int64_t width, DType);

}  // namespace ft::gemma
