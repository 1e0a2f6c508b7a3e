// Tokens that a run adds to its tokenizer: data.new_tokens and data.new_special_tokens.
#pragma once
#include <filesystem>
#include <vector>

#include "data/config.h"
#include "data/tokenizers/tokenizer_settings.h"

namespace ft {

// As make_tokenizer takes them, words first. A token that is there keeps its id; each of the others gets the
// next free one. UserError (exit 2) for an empty one.
std::vector<AddedToken> new_tokens(const DataConfig&);

// Writes them into the tokenizer's files of `folder`: tokenizer.json, else added_tokens.json and
// special_tokens_map.json, and added_tokens_decoder in tokenizer_config.json where it is. transformers and ft
// then read the same ids.
void write_new_tokens(const std::filesystem::path& folder, const std::vector<AddedToken>&);

}  // namespace ft
