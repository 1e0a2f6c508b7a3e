// Describes models in GGUF, the format of llama.cpp and related programs: names, keys, and assumptions of its
// readers. The tables of each family are in its folder.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/gguf/gguf.h"
#include "models/gguf/gguf_part.h"

namespace ft {

// Names of a module in both formats. A % in the first stands for a number: GGUF stacks all tensors that
// differ only in it into one tensor, ordered by that number.
struct GgufName {
  std::string_view hugging_face, gguf;
};
// Name prefixes of a stack of blocks in both formats, and the modules of each block. The first list that has
// a name decides.
struct GgufBlocks {
  std::string_view hugging_face, gguf;
  std::array<std::span<const GgufName>, 3> modules;
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
  std::string note;                 // a difference in readers' results, for people; empty: none

  // Orders of rows that differ between the formats:
  //   pairs   GGUF rotates the pairs (2 i, 2 i + 1) of a head, and Hugging Face (i, i + D / 2): row (head,
  //           half, i) becomes row (head, i, half)
  //   thirds  GGUF stores all queries, then all keys, then all values, and Hugging Face stores them head by
  //           head: row (head, which, i) becomes row (which, head, i)
  //   groups  a head has `each` parts, which GGUF stores by part: row (head, part, i) becomes row (part,
  //           head, i). The rows before `first` keep their places.
  enum class Order : std::uint8_t { pairs, thirds, groups };
  struct Permuted {
    std::string_view module;
    std::int64_t heads;
    Order order = Order::pairs;
    std::int64_t each = 2, first = 0;
    bool columns = false;  // columns have another order, not rows

    bool fits(std::int64_t rows) const { return rows > first && (rows - first) % (heads * each) == 0; }
    // Returns GGUF's row (or column) of Hugging Face's row r of `rows`.
    std::int64_t place(std::int64_t r, std::int64_t rows) const;
  };
  std::vector<Permuted> permuted;
  std::vector<GgufPart> parts;  // of tensors that GGUF splits
  struct FoundPart {
    std::string name;
    const GgufPart* part;
  };
  // Returns GGUF's tensors that hold a tensor; none if GGUF does not split it.
  std::vector<FoundPart> parts_of(const std::string& hugging_face) const;
  const Permuted* find_permuted(const std::string& hugging_face) const;  // null: the order is the same

  float norm_offset = 0;              // GGUF's norm weights are larger by it
  std::string_view plain_norm = "-";  // the module of norms without an offset
  std::string_view rates = "-";       // tensors that GGUF stores as -exp(x)

  // Ends of the names of modules to which llama.cpp adds no GGUF adapter, even if it is in the file.
  std::span<const std::string_view> no_adapters;
  bool takes_adapter(std::string_view module) const {
    return std::ranges::none_of(no_adapters, [&](std::string_view end) { return module.ends_with(end); });
  }

  // Returns GGUF's name of a tensor, such as blk.3.attn_q.weight for model.layers.3.self_attn.q_proj.weight;
  // nullopt if GGUF has none.
  std::optional<std::string> name_of(const std::string& hugging_face) const;
  // Returns the number that % stands for in the name of a matrix that GGUF stacks; -1: GGUF does not stack
  // it.
  std::int64_t place_in_stack(const std::string& hugging_face) const;
  // Reorder values (rows, columns) of this weight or bias to GGUF's order, in place: its rows, its columns,
  // or both. At most one of the two has another order.
  void reorder(const std::string& hugging_face, float* values, std::int64_t rows,
               std::int64_t columns) const {
    reorder_rows(hugging_face, values, rows, columns);
    reorder_columns(hugging_face, values, rows, columns);
  }
  void reorder_rows(const std::string& hugging_face, float* values, std::int64_t rows,
                    std::int64_t columns) const;
  void reorder_columns(const std::string& hugging_face, float* values, std::int64_t rows,
                       std::int64_t columns) const;
  // Convert n values of a tensor to GGUF's values, or back, in place.
  void to_gguf(const std::string& hugging_face, float* values, std::int64_t n) const;
  void from_gguf(const std::string& hugging_face, float* values, std::int64_t n) const;

 private:
  float offset_of(const std::string& hugging_face) const;
};

}  // namespace ft
