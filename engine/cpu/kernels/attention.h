// Attention by tiles of 64 queries by 64 keys: the table that every target fills. See op::Attention. A kernel
// works on one sequence and one key head in one thread; engine/cpu/attention.cpp distributes the parts.
// Queries and keys have their own rows and counts, so that cross attention is only another kind of part.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ft::cpu {

constexpr std::int64_t kAttentionTile = 64;
constexpr std::int64_t kAttentionWidth = 2048;  // the widest head

// A (rows, columns) tensor of the call's type; stride in elements.
struct Rows {
  std::byte* data = nullptr;
  std::int64_t stride = 0;
};

// The bits of ft::BlockMask; without bits all blocks are kept. Blocks have 1 << shift queries and keys.
struct AttentionBlocks {
  const std::uint32_t* bits = nullptr;  // of a decoded row: the row's own bits, for all heads
  std::int64_t head_words = 0;          // distance from one head to the next; 0: all heads have one layout
  std::int64_t rows = 1, words = 0;     // rows of a head; words of a row
  int shift = 0;
};

struct AttentionCall {
  Rows q, k, v, y;
  Rows dy, dq, dk, dv;      // the gradient only
  float* lse = nullptr;     // (heads, rows), natural logarithms
  std::int64_t lse_stride;  // rows
  std::int64_t heads, key_heads, width;
  bool causal;
  std::int64_t window;  // 0: none
  float scale;
  float cap;               // of scaled scores; 0: none
  Rows bias;               // (2 reach + 1, heads) by distance, of the call's type; no data: none
  std::int64_t reach;      //
  float* dbias = nullptr;  // gradient of the bias in f32, +=; null: not wanted
  std::int64_t dbias_stride;
  float dropout;         // see ft::Scores
  std::uint64_t random;  // key of its Random
  std::int64_t first_head, all_heads;
  AttentionBlocks blocks;
};

// Part of a call for a thread: a sequence, a key head and the query heads that share it, `group` = heads /
// key_heads of them. Queries and keys are numbered from the first row of their sequence; masks compare these
// numbers.
struct AttentionPart {
  std::int64_t query_row, queries, key_row, keys;
  std::int64_t key_head;
};

// Works on tiles [begin, end) of a part. workspace: attention_words(width) floats, aligned to 64 bytes, with
// any content.
using AttentionTiles = void (*)(const AttentionCall&, const AttentionPart&, std::int64_t begin,
                                std::int64_t end, float* workspace);

// Computes y and lse of at most tiles_at_once(width) query tiles out of ceil(queries / 64) * group: tile t
// holds the 64 queries from number t / group * 64 of the part's query head t % group.
struct AttentionForward {
  AttentionTiles f32, bf16, f16;
};

// Kernels of the gradient. `whole` computes five products a tile; the kernels in parts compute seven, but
// need little workspace and run in parallel. Results have the same bits.
struct AttentionBackward {
  struct Of {
    AttentionTiles whole;    // dq, dk, dv from all key tiles; attention_words_with_dq(...) floats
    AttentionTiles keys;     // dk, dv of any number of key tiles
    AttentionTiles queries;  // dq of query tiles, numbered as in forward
    AttentionTiles bias;     // adds to dbias the sums for query heads [begin, end) of the part
  };
  Of f32, bf16, f16;
};

// A single row and the keys that it sees, for all query heads of one key head. workspace: at least
// attention_range_words(width) floats, aligned to 64 bytes.
struct AttentionRange {
  Rows q, k, v, y;
  std::int64_t heads, key_heads, width;
  float scale, cap;
  Rows bias;  // as in AttentionCall
  std::int64_t reach;
  std::int64_t row, key_head, first_key, keys;
  AttentionBlocks blocks;
  std::int64_t number;  // number of the first key in its sequence
  float* lse;           // (heads, rows), natural logarithms; null: not wanted
  std::int64_t lse_stride;
};
struct AttentionRanges {
  void (*f32)(const AttentionRange&, float* workspace);
  void (*bf16)(const AttentionRange&, float* workspace);
  void (*f16)(const AttentionRange&, float* workspace);
};

namespace {  // the same in all translation units, merged in none

// Number of query tiles that share a packed key tile, and of key tiles that share a packed query tile: as
// many as fit with their operands into the second-level cache.
constexpr std::int64_t tiles_at_once(std::int64_t width) { return width <= 64 ? 4 : width <= 128 ? 2 : 1; }
// Floats of workspace for a query and its sums.
constexpr std::int64_t attention_range_words(std::int64_t width) { return 2 * ((width + 15) / 16 * 16); }
// Floats of workspace that suffice for every kernel except `whole`.
constexpr std::int64_t attention_words(std::int64_t width) {
  const std::int64_t columns = (width + 15) / 16 * 16;
  return (tiles_at_once(width) + 1) * 6 * kAttentionTile * columns + 6 * kAttentionTile * kAttentionTile;
}
// Floats of workspace for `whole`: also dq of one head, and dk and dv while several heads add to them.
constexpr std::int64_t attention_words_with_dq(std::int64_t width, std::int64_t group, std::int64_t queries,
                                               std::int64_t keys) {
  const std::int64_t columns = (width + 15) / 16 * 16;
  const std::int64_t key_rows = group > 1 ? keys + kAttentionTile : 0;
  return attention_words(width) + columns * (queries + kAttentionTile + 2 * key_rows);
}

}  // namespace
}  // namespace ft::cpu
