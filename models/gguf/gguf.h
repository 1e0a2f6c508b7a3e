// Describes models in GGUF, the format of llama.cpp and related programs: names, keys, and assumptions of its
// readers. The tables of each family are in its folder.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/gguf/gguf.h"

namespace ft {

// Names of a module in both formats. A % in the first stands for a number: GGUF stacks all tensors that
// differ only in it into one tensor, ordered by that number.
struct GgufName {
  std::string_view hugging_face, gguf;
};
// Name prefixes of a stack of blocks in both formats, and the modules of each block.
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
  GgufKeys keys;  // all keys of the model, without the tokenizer's
  GgufNames names;
  struct Factors {  // divisors of the frequencies (R / 2), stored as a tensor
    std::string name;
    std::vector<float> values;
  };
  std::vector<Factors> rope_factors;
  bool tied_head = false;           // write the head even if it equals the embedding's table
  std::int64_t ignored_window = 0;  // attention window that readers ignore; 0: none

  // Linears whose rows have another order in GGUF. Either GGUF rotates the pairs (2 i, 2 i + 1) of a head,
  // and Hugging Face (i, i + D / 2): row (h, half, i) becomes row (h, i, half). Or (thirds) GGUF stores all
  // queries, then all keys, then all values, and Hugging Face stores them head by head: row (h, which, i)
  // becomes row (which, h, i).
  struct Permuted {
    std::string_view module;
    std::int64_t heads;
    bool thirds = false;

    bool fits(std::int64_t rows) const { return rows > 0 && rows % (heads * (thirds ? 3 : 2)) == 0; }
    // Returns the GGUF row of Hugging Face's row r.
    std::int64_t place(std::int64_t r, std::int64_t rows) const;
  };
  std::vector<Permuted> permuted;
  const Permuted* find_permuted(const std::string& hugging_face) const;  // null: the order is the same

  // Returns GGUF's name of a tensor, such as blk.3.attn_q.weight for model.layers.3.self_attn.q_proj.weight;
  // nullopt if GGUF has none.
  std::optional<std::string> name_of(const std::string& hugging_face) const;
  // Returns the number that % stands for in the name of a matrix that GGUF stacks; -1: GGUF does not stack
  // it.
  std::int64_t place_in_stack(const std::string& hugging_face) const;
  // Reorders the rows of (rows, columns) values, of the weight or bias with this name, to GGUF's order, in
  // place.
  void reorder(const std::string& hugging_face, float* values, std::int64_t rows, std::int64_t columns) const;
};

}  // namespace ft
