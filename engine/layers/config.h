// The settings under `model.sparse_attention`: names and defaults of DeepSpeed's sparse_attention.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/rules.h"

namespace ft {

enum class SparsityMode : std::uint8_t { dense, fixed, variable, bigbird, bslongformer, local };
constexpr auto words(SparsityMode) {
  using enum SparsityMode;
  return to_words<SparsityMode>({{dense, "dense"},
                                 {fixed, "fixed"},
                                 {variable, "variable"},
                                 {bigbird, "bigbird"},
                                 {bslongformer, "bslongformer"},
                                 {local, "local"},
                                 {local, "local_sliding_window"}});
}

// Direction in which tokens see others: earlier ones only, or both ways.
enum class AttentionDirection : std::uint8_t { unidirectional, bidirectional };
constexpr auto words(AttentionDirection) {
  using enum AttentionDirection;
  return to_words<AttentionDirection>({{unidirectional, "unidirectional"}, {bidirectional, "bidirectional"}});
}

struct SparseAttentionConfig {
  static constexpr std::int64_t kMostBlocks = 1 << 18;  // blocks of the longest sequences: 2^22 tokens

  SparsityMode mode = SparsityMode::dense;
  std::int64_t block = 16;
  std::int64_t max_seq_length = 2048;
  bool different_layout_per_head = false;
  std::optional<AttentionDirection> attention;  // empty: the model's own direction
  std::int64_t num_local_blocks = 4;
  std::int64_t num_global_blocks = 1;
  bool horizontal_global_attention = false;
  std::int64_t num_different_global_patterns = 1;
  std::int64_t num_random_blocks = 0;
  std::int64_t seed = 42;
  std::vector<std::int64_t> local_window_blocks{4};
  std::vector<std::int64_t> global_block_indices{0};
  std::optional<std::vector<std::int64_t>> global_block_end_indices;
  std::int64_t num_sliding_window_blocks = 3;

  void fields(auto& f) {
    f("mode", mode, "Pattern of the blocks of pairs that attention computes; dense: all blocks.");
    f("block", block, "Tokens of a block: 16, 32, 64 or 128.", at_least(16), at_most(128));
    f("max_seq_length", max_seq_length,
      "Longest sequence of the layout, in tokens; shorter sequences use its first blocks, longer ones are "
      "refused.",
      at_least(1), at_most(1 << 22));
    f("different_layout_per_head", different_layout_per_head,
      "fixed, variable, bigbird: give every head its own global or random blocks.");
    f("attention", attention,
      "Direction of attention; null: the model's, unidirectional in decoders and bidirectional in T5's "
      "encoder.");
    f("num_local_blocks", num_local_blocks, "fixed: blocks of a local window.", at_least(1),
      at_most(kMostBlocks));
    f("num_global_blocks", num_global_blocks,
      "fixed: blocks of each window that all later blocks attend to; bigbird: first blocks that all blocks "
      "attend to.",
      at_least(1), at_most(kMostBlocks));
    f("horizontal_global_attention", horizontal_global_attention,
      "fixed, variable: global blocks also attend to all others; bidirectional only.");
    f("num_different_global_patterns", num_different_global_patterns,
      "fixed: number of choices of a window's global blocks, which heads use in turn.", at_least(1),
      at_most(kMostBlocks));
    f("num_random_blocks", num_random_blocks, "variable, bigbird: random blocks of each row, all different.",
      at_least(0), at_most(kMostBlocks));
    f("seed", seed, "variable, bigbird: seed of the random blocks.", at_least(0));
    f("local_window_blocks", local_window_blocks,
      "variable: blocks of each local window, first to last; further windows are as large as the last.",
      not_empty(), at_least(1), at_most(kMostBlocks));
    f("global_block_indices", global_block_indices,
      "variable, bslongformer: blocks that all blocks attend to; with global_block_end_indices, the first "
      "block of each range.",
      at_least(0), at_most(kMostBlocks));
    f("global_block_end_indices", global_block_end_indices,
      "variable, bslongformer: ends of the ranges of global blocks, exclusive; null: single blocks.",
      at_least(1), at_most(kMostBlocks));
    f("num_sliding_window_blocks", num_sliding_window_blocks,
      "bigbird, bslongformer, local: blocks of the window around each block.", at_least(1),
      at_most(kMostBlocks));
  }
};

}  // namespace ft
