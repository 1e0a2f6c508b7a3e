// LlamaTokenizer's rules around the SentencePiece library.
#pragma once
#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace ft {

// From a tokenizer.model and the files beside it, with `more` added: see make_tokenizer. Throws a UserError
// (exit 3) for whatever is wrong with them.
std::unique_ptr<Tokenizer> make_llama_tokenizer(const std::filesystem::path& file,
                                                const std::vector<AddedToken>& more);

}  // namespace ft
