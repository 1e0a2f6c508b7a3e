// Models and adapters as GGUF files, for llama.cpp and its relatives.
#pragma once
#include <cstdint>
#include <string>

#include "engine/formats/gguf.h"

namespace ft {

// tokenizer.ggml.*: the vocabulary of a model folder, filled up to vocab_size tokens, its special tokens and
// its chat template. A folder without a tokenizer gives the model "no_vocab".
GgufKeys gguf_tokenizer_keys(const std::string& folder, std::int64_t vocab_size);

struct GgufArgs {
  std::string model, adapter;  // folders; an empty adapter: none
  std::string tokenizer;       // the folder of the tokenizer
  std::string output, dtype;   // a file; one of gguf_dtypes(), empty: float16, of an adapter float32
  bool overwrite = false;
};
void export_gguf(const GgufArgs&);       // the model, with the adapter folded in
void export_gguf_lora(const GgufArgs&);  // the adapter alone

}  // namespace ft
