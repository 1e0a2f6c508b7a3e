// Pre-tokenizers of byte-level BPE in GGUF files. GGUF does not store their patterns: tokenizer.ggml.pre
// names a model that has them. The list is llama.cpp's (src/llama-vocab.cpp); the patterns come from the
// models' tokenizer.json.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/json.h"

namespace ft {

struct GgufCut {
  std::vector<std::string_view> names;  // export writes the first one
  std::vector<std::string_view> steps;  // patterns in Oniguruma's syntax; each isolates its matches
  bool whole_pieces = false;            // a piece that is in the vocabulary is not cut further: ignore_merges
  bool begins = false;                  // BOS comes first, unless the file says otherwise
  bool composed = false;                // texts are converted to NFC first
};

// Returns null if ft does not know the name.
const GgufCut* find_gguf_cut(std::string_view name);
std::string gguf_cut_names();  // the first name of each, for messages

// Converts between a cut and tokenizer.json's pre_tokenizer; null: no cut has these steps.
Json pre_tokenizer_of(const GgufCut&);
const GgufCut* recognize_gguf_cut(const Json& pre_tokenizer);

}  // namespace ft
