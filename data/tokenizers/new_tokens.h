// Tokens that a run adds to its tokenizer: data.new_tokens and data.new_special_tokens.
#pragma once
#include <filesystem>
#include <vector>

#include "data/config.h"
#include "data/tokenizers/tokenizer_settings.h"

namespace ft {

// Returns the tokens in make_tokenizer's form, words first. A token that the tokenizer has keeps its id; each
// other token gets the next free id. Throws UserError (config) for an empty token.
std::vector<AddedToken> new_tokens(const DataConfig&);

// Writes the tokens into the tokenizer's files of `folder`: tokenizer.json, else added_tokens.json and
// special_tokens_map.json, and added_tokens_decoder in tokenizer_config.json if it exists. transformers and
// ft then read the same ids.
void write_new_tokens(const std::filesystem::path& folder, const std::vector<AddedToken>&);

}  // namespace ft
