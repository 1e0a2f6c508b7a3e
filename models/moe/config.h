// The config.json of decoders with experts: Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE.
#pragma once
#include "models/decoder/config.h"

namespace ft::moe {

struct Config : decoder::Config {
  std::int64_t experts = 0, choices = 0, expert_width = 0;
  std::int64_t shared_width = 0;  // of the expert that all tokens go to; 0: there is none
  bool normalised = true;         // the weights of a token's experts add up to 1
  float balance = 0;              // coefficient of the routers' loss; 0: it is not added
  bool norms_whole_rows = false;  // queries' and keys' norms are over all heads
  std::vector<bool> sparse;       // of each layer: it has experts
};

// UserError(Exit::input) names the file and the key that is missing, wrong or not supported.
Config read_config(const std::string& config_json);

}  // namespace ft::moe
