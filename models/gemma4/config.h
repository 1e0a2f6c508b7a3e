// The config.json of Gemma 4's text model, alone or inside a model with images and sound.
#pragma once
#include "models/decoder/config.h"

namespace ft::gemma4 {

struct Config : decoder::Config {
  // Heads of full layers, which have no window. head_dim and num_key_value_heads belong to layers with a
  // window.
  std::int64_t full_head_dim = 512, full_key_value_heads = 0;
  Rope full_rope;
  bool values_are_keys = false;     // in full layers
  std::int64_t borrowing = 0;       // number of last layers that use keys and values of earlier layers
  bool borrowers_are_wide = false;  // their MLPs are twice as wide
  float logit_cap = 0;              // 0: none
  std::int64_t per_layer = 0;       // columns of each layer's input; 0: none
  std::int64_t experts = 0, choices = 0, expert_width = 0;  // experts 0: there are none
  // Tokens for images, videos and sound in a larger model; they are embedded as the padding token.
  std::vector<std::int32_t> placeholders;
  bool nested = false;  // the text model is a part of a larger model

  bool full(std::int64_t layer) const { return windows[static_cast<std::size_t>(layer)] == 0; }
  bool borrows(std::int64_t layer) const { return layer >= num_hidden_layers - borrowing; }
  // Returns the layer whose keys and values a layer uses.
  std::int64_t lender_of(std::int64_t layer) const;
  // Returns a layer's settings for decoder::make_block.
  decoder::Config of_layer(std::int64_t layer) const;
};

// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::string& config_json);

}  // namespace ft::gemma4
