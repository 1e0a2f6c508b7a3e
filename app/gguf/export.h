// Models and adapters as GGUF files, for llama.cpp and its relatives.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/gguf.h"
#include "models/llama/config.h"

namespace ft {

// llama (LLaMA, Mistral), qwen2, qwen3: general.architecture.
std::string gguf_architecture(const llama::Config&);
// blk.3.attn_q.weight for model.layers.3.self_attn.q_proj.weight, dec.blk.3.attn_q.weight for T5's
// decoder.block.3.layer.0.SelfAttention.q.weight; nothing for what GGUF has no name for.
std::optional<std::string> gguf_name(const std::string& hugging_face);

// The number of heads whose rows are reordered in GGUF, 0 for none: architecture llama rotates the pairs (2
// i, 2 i + 1) of queries and keys, Hugging Face's files are for (i, i + D / 2). Row (h, half, i) becomes row
// (h, i, half).
std::int64_t gguf_permuted_heads(const std::string& hugging_face, const llama::Config&);
// Reorders rows of (rows, columns) values, in place.
void gguf_permute(float* values, std::int64_t rows, std::int64_t columns, std::int64_t heads);

// Everything about the model but its tokenizer. UserError where GGUF cannot say it.
GgufKeys gguf_model_keys(const llama::Config&, const std::string& config_json);
// The same of a T5: keys of architecture t5, whatever its generation.
GgufKeys gguf_t5_keys(const std::string& config_json);
// Divisors of the frequencies for `llama3` positions (D / 2); empty for all others.
std::vector<float> gguf_rope_factors(const llama::Config&);

// tokenizer.ggml.*: the vocabulary of a model folder, filled up to vocab_size tokens, its special tokens and
// its chat template. A folder without a tokenizer gives the model "no_vocab".
GgufKeys gguf_tokenizer_keys(const std::string& folder, std::int64_t vocab_size);

struct GgufArgs {
  std::string model, adapter;  // folders; an empty adapter: none
  std::string tokenizer;       // the folder of the tokenizer
  std::string output, dtype;   // a file; float32, float16, bfloat16, q8_0 (models only), empty: ft's choice
  bool overwrite = false;
};
void export_gguf(const GgufArgs&);       // the model, with the adapter folded in
void export_gguf_lora(const GgufArgs&);  // the adapter alone

}  // namespace ft
