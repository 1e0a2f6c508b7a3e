// Converts a GGUF file's tokenizer to Hugging Face's files.
#pragma once
#include <string>

#include "engine/formats/gguf/gguf.h"

namespace ft {

// Writes tokenizer.json (byte-level BPE), tokenizer.model or spiece.model (SentencePiece), with
// tokenizer_config.json and chat_template.jinja, into the folder. Writes nothing if the file has no
// vocabulary. Throws UserError (input) if ft does not know its kind.
void write_gguf_tokenizer(const GgufFile&, const std::string& folder);

}  // namespace ft
