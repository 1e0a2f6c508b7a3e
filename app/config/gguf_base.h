// A run's base model: a folder, or a GGUF file.
#pragma once
#include <memory>
#include <string>

namespace ft {

struct BaseModelConfig;

// Where the model is a GGUF file: puts what it says beside its weights (config.json, tokenizer, chat
// template) into a temporary folder, which lives as long as the configuration, so that everything reads it as
// a Hugging Face folder. UserError(Exit::input) for a file that ft cannot read, and for an adapter's folder.
void prepare_base(BaseModelConfig&);

// What using such a base means: "x.gguf: its weights (Q4_K and Q6_K) are dequantized to bf16".
std::string gguf_warning(const std::string& path, const std::string& types, const std::string& into);

}  // namespace ft
