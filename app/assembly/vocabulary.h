// The vocabulary of a run: the model's, plus rows for new tokens and rows that round its size up.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"
#include "models/registry.h"

namespace ft {

// Returns the number of rows of the run's embedding, if the model's has `own` rows. There is a row for each
// of data.new_tokens and new_special_tokens; the number is rounded up to a multiple of
// model.resize_token_embeddings_to_multiple_of, and is never less than the model's.
std::int64_t vocabulary_size(const RunConfig&, std::int64_t own);

// Gives the embedding and the head this many rows. Call it before adapters are attached and memory is taken.
void resize_vocabulary(MadeModel&, std::int64_t rows);

// Returns the names of the weights that have a row for each token.
std::vector<std::string> weights_by_token(const ModelInfo&);

// Returns true if a folder has the files of a tokenizer.
bool has_tokenizer(const std::string& folder);

// Throws UserError (config) if an id means different tokens in this run's tokenizer and in the one of the
// folder `other`, which `setting` names. Checks nothing if either tokenizer is missing.
void require_same_tokens(const RunConfig&, const std::string& setting, const std::string& other);

}  // namespace ft
