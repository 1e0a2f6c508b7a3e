// The config.json of Qwen3-Next and of the text models of Qwen3.5, dense and with experts.
#pragma once
#include "engine/ops/recurrent.h"
#include "models/moe/config.h"

namespace ft::qwen3_next {

struct Config : moe::Config {
  DeltaHeads delta;
  std::int64_t taps = 4;        // of the convolution
  std::vector<bool> recurrent;  // by layer: it has a delta net in place of attention
  bool by_heads = false;        // Qwen3-Next: projections are mixed head by head
  bool experts_too = false;     // layers may have experts
  bool nested = false;          // the text model is a part of a larger model
};

// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::string& config_json);

}  // namespace ft::qwen3_next
