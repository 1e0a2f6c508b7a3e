// The tokenizer that a GGUF file holds, as Hugging Face's files.
#pragma once
#include <string>

#include "engine/formats/gguf.h"

namespace ft {

// Writes tokenizer.json (byte-level BPE), tokenizer.model or spiece.model (SentencePiece), with
// tokenizer_config.json and chat_template.jinja, into the folder; nothing for a file without a vocabulary.
// UserError(Exit::input) for a kind that ft does not know.
void write_gguf_tokenizer(const GgufFile&, const std::string& folder);

}  // namespace ft
