// Finds the position of each token in its text.
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

// Returns the bytes that a token stands for within a text; a special token's name; "" for an id without a
// token.
std::string token_bytes(const Tokenizer& tokenizer, std::int32_t id);

// Returns the byte range of each token, from its first byte to one past its last, by the tokens' texts.
// Returns nullopt if these do not add up to the text: a tokenizer may change letters, or remove white space.
std::optional<std::vector<std::pair<std::size_t, std::size_t>>> token_spans(const Tokenizer& tokenizer,
                                                                            std::span<const std::int32_t> ids,
                                                                            std::string_view text);

}  // namespace ft
