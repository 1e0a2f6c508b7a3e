// A model's prompts: their form for its family, and the tokens that begin and end its answers.
#pragma once
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "engine/generate/config.h"
#include "engine/generate/generator.h"
#include "models/registry.h"

namespace ft {

// Returns the prompt of these tokens: a decoder continues them, an encoder-decoder reads them as its source.
Prompt prompt_of(std::vector<std::int32_t> ids, const ModelInfo&);

// Returns the end tokens of generation_config.json, else of config.json, else the tokenizer's (null: none).
std::vector<std::int32_t> end_tokens(const std::string& folder, const Tokenizer*);

// Throws UserError (config) if a forced token is not one of the model's.
void check_forced_tokens(const GenerationConfig&, std::int64_t vocab_size);

}  // namespace ft
