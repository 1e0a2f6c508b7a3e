// The probabilities of an answer's tokens in the words of OpenAI's API.
#pragma once
#include <nlohmann/json.hpp>
#include <span>

#include "data/tokenizers/tokenizer.h"
#include "engine/files/json.h"
#include "engine/generate/log_probabilities.h"

namespace ft {

// For /v1/completions: tokens, token_logprobs, top_logprobs and text_offset, each a list. `offset`:
// characters before the first token; afterwards, before the next one. `top`: the likeliest tokens were asked
// for.
Json completion_logprobs(std::span<const ScoredToken>, const Tokenizer&, bool top, std::int64_t& offset);
// For /v1/chat/completions: content, a list of a token each.
Json chat_logprobs(std::span<const ScoredToken>, const Tokenizer&);

}  // namespace ft
