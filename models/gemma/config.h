// The config.json of Gemma 2 and of Gemma 3's text model.
#pragma once
#include <optional>

#include "models/decoder/config.h"

namespace ft::gemma {

struct Config : decoder::Config {
  float query_pre_attn_scalar = 256;
  float score_cap = 0, logit_cap = 0;  // 0: none
  std::optional<Rope> local_rope;      // of layers with a window, where they have their own
};

// UserError(Exit::input) names the file and the key that is missing, wrong or not supported.
Config read_config(const std::string& config_json);

// sqrt(hidden_size), rounded to the type that it is computed in.
float embedding_scale(const Config&, DType);

}  // namespace ft::gemma
