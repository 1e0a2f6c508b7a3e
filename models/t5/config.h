// The config.json of a T5: the original (1.0), 1.1, Flan and mT5 (Raffel et al. 2020; Xue et al. 2021).
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/ops/elementwise.h"

namespace ft::t5 {

struct Config {
  std::string model_type;  // t5, mt5
  std::int64_t vocab_size = 0, d_model = 0, d_kv = 0, d_ff = 0, num_heads = 0;
  std::int64_t num_layers = 0, num_decoder_layers = 0;
  std::int64_t buckets = 32, max_distance = 128;  // of relative positions
  float layer_norm_epsilon = 1e-6f;
  float dropout_rate = 0;
  float initializer_factor = 1;
  Activation activation = Activation::relu;
  bool gated = false;  // DenseReluDense has wi_0 and wi_1

  bool scale_outputs = false;  // the decoder's states are multiplied by d_model^-0.5 before the head
  bool own_head = false;       // the head has lm_head.weight and does not use the embedding's table
  std::string shared_name;     // name of the embedding's table in the files: shared.weight or a copy's name

  std::int64_t inner() const { return num_heads * d_kv; }
  float output_scale() const { return 1 / std::sqrt(static_cast<float>(d_model)); }
};

// Reads config.json, and the names of the weights in its folder if there are any: only they tell whether the
// head has its own table. tie_word_embeddings does not tell, because transformers uses it for the scaling.
// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::filesystem::path& config_json);

}  // namespace ft::t5
