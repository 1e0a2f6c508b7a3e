// A unigram language model (Kudo, https://aclanthology.org/P18-1007): of all ways to cut a text into tokens
// it takes the one with the largest sum of scores.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/json/token_model.h"

namespace ft {

// `pieces`: texts and scores (log probabilities); the index is the id. `unk_id`: the token of characters that
// no piece has; without it they are an error. Throws UserError (input), which begins with `where`.
std::unique_ptr<TokenModel> make_unigram(const std::vector<std::pair<std::string, double>>& pieces,
                                         std::optional<std::int64_t> unk_id, bool byte_fallback,
                                         const std::string& where);

}  // namespace ft
