// How GGUF, the format of llama.cpp and its relatives, describes a model: names, keys, and what its readers
// assume. The tables of each family are in its folder.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/gguf.h"

namespace ft {

// A % in the first stands for a number: all tensors that differ in it are one there, stacked in its order.
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
  struct Factors {  // divisors of the frequencies (R / 2), a tensor of their own
    std::string name;
    std::vector<float> values;
  };
  std::vector<Factors> rope_factors;
  bool tied_head = false;           // a head is written even if it is the embedding's table
  std::int64_t ignored_window = 0;  // of attention, which readers compute without; 0: none

  // Linears whose rows have another order there. Either their heads rotate the pairs (2 i, 2 i + 1), those of
  // Hugging Face's files (i, i + D / 2): row (h, half, i) becomes row (h, i, half). Or they have all queries,
  // keys and values one after another, those of the files head by head: row (h, which, i) becomes row (which,
  // h, i).
  struct Permuted {
    std::string_view module;
    std::int64_t heads;
    bool thirds = false;

    bool fits(std::int64_t rows) const { return rows > 0 && rows % (heads * (thirds ? 3 : 2)) == 0; }
    // The number there of row r of the files.
    std::int64_t place(std::int64_t r, std::int64_t rows) const;
  };
  std::vector<Permuted> permuted;
  const Permuted* find_permuted(const std::string& hugging_face) const;  // null: the order is the same

  // blk.3.attn_q.weight for model.layers.3.self_attn.q_proj.weight; nothing for what GGUF has no name for.
  std::optional<std::string> name_of(const std::string& hugging_face) const;
  // The number that a % stands for in the name of a matrix that is stacked there; -1: it is not.
  std::int64_t place_in_stack(const std::string& hugging_face) const;
  // Brings (rows, columns) values, of a weight or bias with this name, into its order there, in place.
  void reorder(const std::string& hugging_face, float* values, std::int64_t rows, std::int64_t columns) const;
};

}  // namespace ft
