// Compares the tables of tokens in a model's files: tie_word_embeddings alone does not tell whether the
// embedding and the head share one.
#pragma once
#include <memory>
#include <string>

#include "engine/files/safetensors/weights.h"

namespace ft {

// Returns the weights in the folder of config.json; null if there are none.
std::unique_ptr<WeightSource> weights_beside(const std::string& config_json, const StoredNames& = {});

// Returns true if the files hold both tensors and they differ in shape or in a value.
bool differ(const WeightSource&, const std::string& a, const std::string& b);

}  // namespace ft
