// Where tokens lie in the text that they were made of.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace ft {

// The bytes that a token stands for within a text, of a special one its name; "" for an id without a token.
std::string token_bytes(const Tokenizer& tokenizer, std::int32_t id);

// (tokens) the bytes from the first of each to behind its last, by the tokens' own texts. Nothing where these
// are not the text, piece by piece: a tokenizer may change letters, or take white space away.
std::optional<std::vector<std::pair<std::size_t, std::size_t>>> token_spans(const Tokenizer& tokenizer,
                                                                            std::span<const std::int32_t> ids,
                                                                            std::string_view text);

}  // namespace ft
