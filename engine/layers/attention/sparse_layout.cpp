#include "engine/layers/attention/sparse_layout.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <tuple>

#include "engine/core/error.h"
#include "engine/core/random.h"

namespace ft {
namespace {

using enum SparsityMode;

constexpr std::int64_t kMostWords = std::int64_t{1} << 28;  // words of a layout: 1 GB

[[noreturn]] void refuse(const std::string& what) {
  throw UserError(Exit::config, "model.sparse_attention." + what);
}

// The modes that read a setting. DeepSpeed ignores it in the others.
struct Setting {
  const char* name;
  bool given;  // its value is not the default
  std::initializer_list<SparsityMode> modes;
};
void check_uses(const SparseAttentionConfig& c) {
  const SparseAttentionConfig usual;
  const Setting settings[] = {
      {"block", c.block != usual.block, {fixed, variable, bigbird, bslongformer, local}},
      {"max_seq_length",
       c.max_seq_length != usual.max_seq_length,
       {fixed, variable, bigbird, bslongformer, local}},
      {"attention", c.attention.has_value(), {fixed, variable, bigbird, bslongformer, local}},
      {"different_layout_per_head",
       c.different_layout_per_head,
       {fixed, variable, bigbird, bslongformer}},  // bslongformer has one layout for all heads
      {"num_local_blocks", c.num_local_blocks != usual.num_local_blocks, {fixed}},
      {"num_global_blocks", c.num_global_blocks != usual.num_global_blocks, {fixed, bigbird}},
      {"horizontal_global_attention", c.horizontal_global_attention, {fixed, variable}},
      {"num_different_global_patterns", c.num_different_global_patterns != 1, {fixed}},
      {"num_random_blocks", c.num_random_blocks != 0, {variable, bigbird}},
      {"seed", c.seed != usual.seed, {variable, bigbird}},
      {"local_window_blocks", c.local_window_blocks != usual.local_window_blocks, {variable}},
      {"global_block_indices",
       c.global_block_indices != usual.global_block_indices,
       {variable, bslongformer}},
      {"global_block_end_indices", c.global_block_end_indices.has_value(), {variable, bslongformer}},
      {"num_sliding_window_blocks",
       c.num_sliding_window_blocks != usual.num_sliding_window_blocks,
       {bigbird, bslongformer, local}},
  };
  for (const Setting& u : settings) {
    if (!u.given || std::find(u.modes.begin(), u.modes.end(), c.mode) != u.modes.end()) continue;
    std::string modes;
    for (const SparsityMode m : u.modes) modes += (modes.empty() ? "" : ", ") + std::string(name_of(m));
    refuse(str(u.name, ": has no effect in mode ", name_of(c.mode), "; modes that use it: ", modes));
  }
}

// The blocks of one head's layout, to which rows and columns are added.
class Square {
 public:
  Square(BlockLayout& layout, std::int64_t head, bool unidirectional)
      : layout_(layout), head_(head), n_(layout.blocks()), unidirectional_(unidirectional) {}

  std::int64_t blocks() const { return n_; }
  bool unidirectional() const { return unidirectional_; }
  void keep(std::int64_t row, std::int64_t column) {
    if (column <= row || !no_future_) layout_.keep(head_, row, column);
  }
  // From now on keeps no blocks in a row's future, if attention is unidirectional.
  void leave_out_future() { no_future_ = unidirectional_; }
  // Full rows and columns [from, to), cut at the border; columns begin at first_row.
  void rows(std::int64_t from, std::int64_t to) {
    for (std::int64_t r = from; r < std::min(to, n_); ++r)
      for (std::int64_t c = 0; c < n_; ++c) keep(r, c);
  }
  void columns(std::int64_t from, std::int64_t to, std::int64_t first_row = 0) {
    for (std::int64_t r = first_row; r < n_; ++r)
      for (std::int64_t c = from; c < std::min(to, n_); ++c) keep(r, c);
  }
  // Lets blocks [from, from + size) see each other.
  void window(std::int64_t from, std::int64_t size) {
    const std::int64_t to = std::min(from + size, n_);
    for (std::int64_t r = from; r < to; ++r)
      for (std::int64_t c = from; c < (unidirectional_ ? r + 1 : to); ++c) keep(r, c);
  }
  // Keeps the `size` blocks around each row's own.
  void sliding(std::int64_t size) {
    for (std::int64_t r = 0; r < n_; ++r)
      for (std::int64_t c = std::max<std::int64_t>(0, r - size / 2); c < std::min(r + size / 2 + 1, n_); ++c)
        keep(r, c);
  }
  // Keeps `count` different columns of each row of an empty layout (Floyd's sampling): among all columns or,
  // with `past`, among those up to the row's own.
  void random(std::int64_t count, bool past, const Random& random) {
    for (std::int64_t r = 0; r < n_; ++r) {
      const std::int64_t among = past ? r + 1 : n_, wanted = std::min(count, among);
      for (std::int64_t j = among - wanted; j < among; ++j) {
        const auto draw = static_cast<std::uint64_t>((head_ * n_ + r) * count + j - (among - wanted));
        const std::uint64_t number = random.at(draw)[0];
        const auto c = static_cast<std::int64_t>(number * static_cast<std::uint64_t>(j + 1) >> 32);
        keep(r, layout_.keeps(head_, r, c) ? j : c);
      }
    }
  }

 private:
  BlockLayout& layout_;
  std::int64_t head_, n_;
  bool unidirectional_, no_future_ = false;
};

void global_columns(Square& h, std::int64_t from, std::int64_t to, bool rows_too) {
  h.columns(from, to, h.unidirectional() ? from : 0);
  if (rows_too) h.rows(from, to);
}

// Makes the last blocks of each window global; heads take turns at which of them.
void make_fixed(Square& h, const SparseAttentionConfig& c, std::int64_t head) {
  const std::int64_t n = h.blocks(), local = c.num_local_blocks, global = c.num_global_blocks;
  for (std::int64_t at = 0; at < n; at += local) h.window(at, local);
  const std::int64_t first = local - (1 + head % c.num_different_global_patterns) * global;
  const std::int64_t end = n - n % local;
  for (std::int64_t at = first; at < end; at += local)
    global_columns(h, at, at + global, c.horizontal_global_attention);
  if (end == n) return;
  const std::int64_t start = std::min(end + first, n - global);  // the last window is short
  // Follows Python's negative indices if the layout is shorter than the global blocks.
  global_columns(h, start < 0 ? std::max<std::int64_t>(0, start + n) : start, start + global,
                 c.horizontal_global_attention);
}

template <class F>
void for_each_global_range(const SparseAttentionConfig& c, F f) {
  for (std::size_t i = 0; i < c.global_block_indices.size(); ++i) {
    const std::int64_t from = c.global_block_indices[i];
    f(from, c.global_block_end_indices ? (*c.global_block_end_indices)[i] : from + 1);
  }
}

void make_variable(Square& h, const SparseAttentionConfig& c, const Random& random) {
  h.random(c.num_random_blocks, false, random);
  std::int64_t at = 0;
  for (const std::int64_t size : c.local_window_blocks) {
    h.window(at, size);
    at = std::min(at + size, h.blocks());
  }
  for (const std::int64_t size = c.local_window_blocks.back(); at < h.blocks(); at += size)
    h.window(at, size);
  for_each_global_range(c, [&](std::int64_t from, std::int64_t to) {
    global_columns(h, from, to, c.horizontal_global_attention);
  });
}

void make_bigbird(Square& h, const SparseAttentionConfig& c, const Random& random) {
  h.leave_out_future();
  h.random(c.num_random_blocks, h.unidirectional(), random);
  h.sliding(c.num_sliding_window_blocks);
  h.rows(0, c.num_global_blocks);
  h.columns(0, c.num_global_blocks);
}

void make_bslongformer(Square& h, const SparseAttentionConfig& c) {
  h.leave_out_future();
  h.sliding(c.num_sliding_window_blocks);
  for_each_global_range(c, [&](std::int64_t from, std::int64_t to) {
    h.rows(from, to);
    h.columns(from, to);
  });
}

void make_local(Square& h, const SparseAttentionConfig& c) {
  h.leave_out_future();
  h.sliding(c.num_sliding_window_blocks);
}

void check_global_ranges(const SparseAttentionConfig& c) {
  if (!c.global_block_end_indices) return;
  const auto &from = c.global_block_indices, &to = *c.global_block_end_indices;
  if (from.size() != to.size())
    refuse(str("global_block_end_indices: there are ", to.size(), " and ", from.size(),
               " global_block_indices; give as many"));
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] >= to[i])
      refuse(str("global_block_end_indices.", i, ": ", to[i], " is not above global_block_indices.", i,
                 ", which is ", from[i]));
}

void check_fixed(const SparseAttentionConfig& c) {
  if (c.num_local_blocks % c.num_global_blocks != 0)
    refuse(str("num_local_blocks: ", c.num_local_blocks, " is not a multiple of num_global_blocks, which is ",
               c.num_global_blocks));
  const std::int64_t patterns = c.num_different_global_patterns;
  if (patterns > 1 && !c.different_layout_per_head)
    refuse(str("num_different_global_patterns: ", patterns, " needs different_layout_per_head=true"));
  if (patterns > c.num_local_blocks / c.num_global_blocks)
    refuse(str("num_different_global_patterns: ", patterns, "; a window of ", c.num_local_blocks,
               " blocks has ", c.num_local_blocks / c.num_global_blocks, " choices of ",
               c.num_global_blocks));
}

// Checks numbers of blocks per row against the number of blocks.
void check_sizes(const SparseAttentionConfig& c, std::int64_t blocks) {
  const bool sliding = c.mode == bigbird || c.mode == bslongformer || c.mode == local;
  for (const auto& [used, count, name] :
       {std::tuple{c.mode == variable || c.mode == bigbird, c.num_random_blocks, "num_random_blocks"},
        std::tuple{sliding, c.num_sliding_window_blocks, "num_sliding_window_blocks"},
        std::tuple{c.mode == bigbird, c.num_global_blocks, "num_global_blocks"}})
    if (used && count > blocks)
      refuse(str(name, ": ", count, "; max_seq_length ", c.max_seq_length, " has only ", blocks, " blocks"));
}

}  // namespace

void check_sparse_attention(const SparseAttentionConfig& c) {
  check_uses(c);
  if (c.seed != SparseAttentionConfig{}.seed && c.num_random_blocks == 0)
    refuse("seed: has no effect without num_random_blocks");
  if (!is_attention_block(c.block)) refuse(str("block: must be 16, 32, 64 or 128, is ", c.block));
  if (c.mode == fixed) check_fixed(c);
  if (c.mode == variable || c.mode == bslongformer) check_global_ranges(c);
  if (c.mode != dense) check_sizes(c, ceil_div(c.max_seq_length, c.block));
}

BlockLayout make_layout(const SparseAttentionConfig& c, AttentionDirection direction, std::int64_t heads) {
  check_sparse_attention(c);
  const bool unidirectional = direction == AttentionDirection::unidirectional;
  if (c.attention && *c.attention != direction)
    refuse(str("attention: the model's is ", name_of(direction), "; leave it out"));
  if (unidirectional && c.horizontal_global_attention)
    refuse("horizontal_global_attention: the model's attention is unidirectional; leave it out");
  const bool differ =
      c.different_layout_per_head && (c.num_random_blocks > 0 || c.num_different_global_patterns > 1);
  const std::int64_t layouts = differ ? heads : 1, blocks = ceil_div(c.max_seq_length, c.block);
  if (layouts * blocks * ceil_div(blocks, std::int64_t{32}) > kMostWords)
    refuse(str("max_seq_length: a layout of ", blocks, " x ", blocks, " blocks for each of ", layouts,
               " heads takes more than 1 GB; set a larger block"));
  BlockLayout layout(layouts, blocks, c.block);
  const Random random = Random{static_cast<std::uint64_t>(c.seed)}.with("sparse_attention");
  for (std::int64_t i = 0; i < layouts; ++i) {
    Square head(layout, i, unidirectional);
    if (c.mode == fixed) make_fixed(head, c, i);
    if (c.mode == variable) make_variable(head, c, random);
    if (c.mode == bigbird) make_bigbird(head, c, random);
    if (c.mode == bslongformer) make_bslongformer(head, c);
    if (c.mode == local) make_local(head, c);
  }
  return layout;
}

}  // namespace ft
