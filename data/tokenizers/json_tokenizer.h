// Tokenizers in the format of Hugging Face's tokenizers library.
#pragma once
#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace ft {

// `more` are added to each: see make_tokenizer.
//
// From a tokenizer.json, with what tokenizer_config.json and special_tokens_map.json beside it say. UserError
// (exit 3) for what is wrong with them, and for parts that ft does not know, by name.
std::unique_ptr<Tokenizer> make_json_tokenizer(const std::filesystem::path& file,
                                               const std::vector<AddedToken>& more);

// From a vocab.json and the merges.txt beside it: byte-level BPE as GPT2Tokenizer and Qwen2Tokenizer make it.
std::unique_ptr<Tokenizer> make_vocab_tokenizer(const std::filesystem::path& file,
                                                const std::vector<AddedToken>& more);

// T5Tokenizer's, from a spiece.model.
std::unique_ptr<Tokenizer> make_t5_tokenizer(const std::filesystem::path& file,
                                             const std::vector<AddedToken>& more);

}  // namespace ft
