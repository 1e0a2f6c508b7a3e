// Applies LlamaTokenizer's rules with the SentencePiece library.
#pragma once
#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace ft {

// Reads a tokenizer.model and the other files of its folder, and adds `more`: see make_tokenizer. Throws
// UserError (input) if a file is not valid.
std::unique_ptr<Tokenizer> make_llama_tokenizer(const std::filesystem::path& file,
                                                const std::vector<AddedToken>& more);

}  // namespace ft
