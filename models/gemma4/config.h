// The config.json of Gemma 4's text model, alone or inside a model with images and sound.
#pragma once
#include "models/decoder/config.h"

namespace ft::gemma4 {

struct Config : decoder::Config {
  // Full layers, those without a window, have heads of their own. head_dim and num_key_value_heads are those
  // of the layers with a window.
  std::int64_t full_head_dim = 512, full_key_value_heads = 0;
  Rope full_rope;
  bool values_are_keys = false;     // in full layers
  std::int64_t borrowing = 0;       // the number of last layers that use keys and values of earlier ones
  bool borrowers_are_wide = false;  // their MLPs are twice as wide
  float logit_cap = 0;              // 0: none
  std::int64_t per_layer = 0;       // columns of each layer's own input; 0: there is none
  std::int64_t experts = 0, choices = 0, expert_width = 0;  // experts 0: there are none
  // Tokens of a larger model for images, films and sound, which it embeds as the padding token.
  std::vector<std::int32_t> placeholders;
  bool nested = false;  // the text model is a part of a larger model

  bool full(std::int64_t layer) const { return windows[static_cast<std::size_t>(layer)] == 0; }
  bool borrows(std::int64_t layer) const { return layer >= num_hidden_layers - borrowing; }
  // The layer whose keys and values a layer uses.
  std::int64_t lender_of(std::int64_t layer) const;
  // The settings of a layer, as decoder::make_block takes them.
  decoder::Config of_layer(std::int64_t layer) const;
};

// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::string& config_json);

}  // namespace ft::gemma4
