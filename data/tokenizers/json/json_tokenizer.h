// Tokenizers in the format of Hugging Face's tokenizers library.
#pragma once
#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace ft {

// All add `more` tokens: see make_tokenizer.
//
// Reads a tokenizer.json, and the settings in tokenizer_config.json and special_tokens_map.json of its
// folder. Throws UserError (input) if they are not valid, or name a part that ft does not know.
std::unique_ptr<Tokenizer> make_json_tokenizer(const std::filesystem::path& file,
                                               const std::vector<AddedToken>& more);

// Reads a vocab.json and the merges.txt of its folder: byte-level BPE, as GPT2Tokenizer and Qwen2Tokenizer
// make it.
std::unique_ptr<Tokenizer> make_vocab_tokenizer(const std::filesystem::path& file,
                                                const std::vector<AddedToken>& more);

// Makes T5Tokenizer's tokenizer from a spiece.model.
std::unique_ptr<Tokenizer> make_t5_tokenizer(const std::filesystem::path& file,
                                             const std::vector<AddedToken>& more);

}  // namespace ft
