// The probabilities of an answer's tokens, in the form of OpenAI's API.
#pragma once
#include <nlohmann/json.hpp>
#include <span>

#include "data/tokenizers/tokenizer.h"
#include "engine/files/json.h"
#include "engine/generate/log_probabilities.h"

namespace ft {

// Returns the object of /v1/completions: the lists tokens, token_logprobs, top_logprobs and text_offset.
// `offset`: number of characters before the first token; afterwards, before the next token. `top`: include
// the likeliest tokens.
Json completion_logprobs(std::span<const ScoredToken>, const Tokenizer&, bool top, std::int64_t& offset);
// Returns the object of /v1/chat/completions: content, a list with an element for each token.
Json chat_logprobs(std::span<const ScoredToken>, const Tokenizer&);

}  // namespace ft
