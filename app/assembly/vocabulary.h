// The vocabulary of a run: the model's own, and what new tokens and multiples add to it.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"
#include "models/registry.h"

namespace ft {

// Rows of the embedding of a run whose model has `own`: enough for data.new_tokens and new_special_tokens,
// then up to model.resize_token_embeddings_to_multiple_of; never fewer than the model's.
std::int64_t vocabulary_size(const RunConfig&, std::int64_t own);

// Gives the embedding and the head so many rows. Before adapters and memory.
void resize_vocabulary(MadeModel&, std::int64_t rows);

// What of the model's files has a row for each token.
std::vector<std::string> weights_by_token(const ModelInfo&);

// Whether a folder has files that make a tokenizer.
bool has_tokenizer(const std::string& folder);

// UserError (exit 2) where the tokenizer of the model in the folder `other`, which `setting` names, has
// another token for an id than this run's: it has to mean the same to both. Without a tokenizer
// nothing is checked.
void require_same_tokens(const RunConfig&, const std::string& setting, const std::string& other);

}  // namespace ft
