// The config.json of DeepSeek V2 and V3, GLM-4.7-Flash (glm4_moe_lite) and GLM-4.5 (glm4_moe).
#pragma once
#include <optional>

#include "engine/layers/attention/latent.h"
#include "models/moe/config.h"

namespace ft::deepseek {

// Sizes of latent attention.
struct Latent {
  std::int64_t query_rank = 0;  // 0: one matrix, q_proj, makes queries
  std::int64_t rank = 0;        // of keys and values
  LatentHeads heads;
  bool neighbours = true;  // see LatentProjections
};

struct Config : moe::Config {
  std::optional<Latent> latent;      // absent: the usual attention (GLM-4.5)
  std::int64_t guessing_layers = 0;  // layers after the last that guess further tokens; files may hold them
};

// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::string& config_json);

}  // namespace ft::deepseek
