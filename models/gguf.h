// How GGUF, the format of llama.cpp and its relatives, describes a model: names, keys, and what its readers
// assume. The tables of each family are in its folder.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/gguf.h"

namespace ft {

struct GgufName {
  std::string_view hugging_face, gguf;
};
// Where blocks begin, what they are called in GGUF, and their modules.
struct GgufBlocks {
  std::string_view hugging_face, gguf;
  std::span<const GgufName> modules, more = {};
};
struct GgufNames {
  std::span<const GgufName> modules;  // outside all blocks
  std::span<const GgufBlocks> blocks;
};

struct GgufModel {
  std::string architecture;  // general.architecture
  std::int64_t vocab_size = 0;
  GgufKeys keys;  // everything about the model but its tokenizer
  GgufNames names;
  std::vector<float> rope_factors;  // divisors of the frequencies (D / 2); empty: none
  bool tied_head = false;           // a head is written even if it is the embedding's table

  // Linears whose rows have another order there: their heads rotate the pairs (2 i, 2 i + 1), those of
  // Hugging Face's files (i, i + D / 2). Row (h, half, i) becomes row (h, i, half).
  struct Permuted {
    std::string_view module;
    std::int64_t heads;
  };
  std::vector<Permuted> permuted;

  // blk.3.attn_q.weight for model.layers.3.self_attn.q_proj.weight; nothing for what GGUF has no name for.
  std::optional<std::string> name_of(const std::string& hugging_face) const;
  // Heads of a weight or bias whose rows have another order; 0: none.
  std::int64_t permuted_heads(const std::string& hugging_face) const;
};

// Reorders rows of (rows, columns) values, in place.
void gguf_permute(float* values, std::int64_t rows, std::int64_t columns, std::int64_t heads);

}  // namespace ft
