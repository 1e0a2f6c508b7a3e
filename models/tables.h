// The tables of tokens in a model's files: tie_word_embeddings alone does not tell whether the embedding and
// the head share one.
#pragma once
#include <memory>
#include <string>

#include "engine/files/weights.h"

namespace ft {

// The weights beside config.json (a file); null: there are only settings.
std::unique_ptr<WeightSource> weights_beside(const std::string& config_json, const StoredNames& = {});

// True if both are there and differ in shape or in a value.
bool differ(const WeightSource&, const std::string& a, const std::string& b);

}  // namespace ft
