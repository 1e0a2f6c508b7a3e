// A run's base model: a folder, or a GGUF file.
#pragma once
#include <memory>
#include <string>

namespace ft {

struct BaseModelConfig;

// If the model is a GGUF file: unpacks its config.json, tokenizer and chat template into a temporary folder,
// so that other code reads it as a Hugging Face folder. The folder lives as long as the configuration. Throws
// UserError (input) if ft cannot read the file, or if the model's folder is an adapter.
void prepare_base(BaseModelConfig&);

// Returns the warning about a GGUF base: "x.gguf: its weights (Q4_K and Q6_K) are dequantized to bf16".
std::string gguf_warning(const std::string& path, const std::string& types, const std::string& into);

}  // namespace ft
