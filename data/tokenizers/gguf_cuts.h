// Cuts of a text before byte-level BPE. GGUF does not hold the patterns: tokenizer.ggml.pre names a model
// that has them. The list is llama.cpp's (src/llama-vocab.cpp), the patterns are those of the models'
// tokenizer.json.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/json.h"

namespace ft {

struct GgufCut {
  std::vector<std::string_view> names;  // the first is the one that export writes
  std::vector<std::string_view> steps;  // patterns in Oniguruma's syntax; each isolates its matches
  bool whole_pieces = false;            // a piece that is a token stays one: ignore_merges
  bool begins = false;                  // BOS in front, unless the file says otherwise
  bool composed = false;                // texts are brought into NFC first
};

// Null: no model that ft knows.
const GgufCut* find_gguf_cut(std::string_view name);
std::string gguf_cut_names();  // the first of each, for messages

// tokenizer.json's pre_tokenizer of a cut, and the cut that a pre_tokenizer is; null: none has its steps.
Json pre_tokenizer_of(const GgufCut&);
const GgufCut* recognize_gguf_cut(const Json& pre_tokenizer);

}  // namespace ft
