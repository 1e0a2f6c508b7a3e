// Writes models and adapters as GGUF files, for llama.cpp and related programs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "app/assembly/qat.h"
#include "engine/formats/gguf/gguf.h"

namespace ft {

// Returns the keys tokenizer.ggml.*: the vocabulary of a model folder, padded to vocab_size tokens, its
// special tokens and its chat template. Without a tokenizer the model is "no_vocab".
GgufKeys gguf_tokenizer_keys(const std::string& folder, std::int64_t vocab_size);

struct GgufArgs {
  std::string model, adapter;  // folders; an adapter "": none
  std::string tokenizer;       // the folder of the tokenizer
  std::string output, dtype;   // a file; one of gguf_dtypes(), empty: float16, adapter float32
  bool overwrite = false;
  std::optional<QatRun> qat;  // the run's, with an empty dtype: the file has the types of its training
};
void export_gguf(const GgufArgs&);       // writes the model with the adapter merged in
void export_gguf_lora(const GgufArgs&);  // writes only the adapter

}  // namespace ft
