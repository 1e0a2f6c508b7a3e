// Attention with its masks, and rotary positions. H query heads and KV key heads, each of D columns.
#pragma once
#include <span>

#include "engine/core/random.h"
#include "engine/ops/block_layout.h"
#include "engine/ops/roles.h"

namespace ft {

struct Heads {
  std::int64_t query, key_value,
      width;  // H, KV, D; H a multiple of KV: H / KV queries share one key and value
};

// Sparse attention: only pairs in the blocks that a layout keeps see each other.
struct BlockMask {
  const BlockLayout* layout = nullptr;  // null: all blocks are kept
  Tensor bits = {};  // the first rows of each of the layout's heads, on the device: (heads * rows, words) i32

  explicit operator bool() const { return layout != nullptr; }
  std::int64_t rows() const { return bits.rows() / layout->heads(); }
};

// The keys that a query sees: keys of the same sequence; if causal, none in its future; with window > 0 only
// the last `window` keys, its own included (transformers' sliding_window).
struct Mask {
  std::span<const std::int32_t> starts;  // (sequences + 1) first row of each sequence, on the host
  bool causal = true;
  std::int64_t window = 0;
  // Cross-attention: first rows of the keys' sequences. Keys have their own rows then; the mask is not
  // causal. A window requires a single sequence: query i sees keys from number i - window + 1 on. Empty: keys
  // and queries are rows of the same tokens.
  std::span<const std::int32_t> key_starts = {};
  BlockMask blocks = {};  // self-attention only

  std::span<const std::int32_t> starts_of_keys() const { return key_starts.empty() ? starts : key_starts; }
};

// Number of pairs of a query and a key that see each other, in all sequences of one head; with blocks the
// mean of the heads.
double visible_pairs(const Mask& mask);

// The way from scores to probabilities: softmax(scale q k^T + bias), then dropout; with a cap softmax(cap
// tanh(scale q k^T / cap)).
struct Scores {
  float scale = 1;
  // (2 reach + 1, H) of q's dtype: row reach + clamp(key - query, -reach, reach) is added to the scores of
  // all pairs at that distance: T5's relative positions (Raffel et al. 2020). Self-attention only. Empty: no
  // bias.
  Tensor bias = {};
  // Training: a probability becomes 0 with probability `dropout`; otherwise it is scaled up, by a DropRule.
  // Head h, query row i and key j of its sequence use number j % 8 of random.eight_at((i H + h) << 32 | j /
  // 8). If these heads are a part of the model's, h counts from first_head, and H is all_heads.
  float dropout = 0;
  Random random = {};
  float cap = 0;                               // 0: none; with a cap there is no bias
  std::int64_t first_head = 0, all_heads = 0;  // 0: the heads here are all heads

  std::int64_t reach() const { return bias ? bias.rows() / 2 : 0; }
};

// Ranges of keys for queries whose keys are not rows of the same call: query row i sees rows [first[i],
// first[i] + count[i]) of k and v, with window > 0 only the last `window` of them. On the device.
struct KeyRanges {
  Tensor first, count;      // (rows) i32; count at least 1
  std::int64_t window = 0;  // 0: none
  // Sparse attention: the blocks of `block` keys, counted from first[i], that row i sees with head h of
  // `heads` (1 or H). They are the bits of row i * heads + h, in the form of BlockLayout. Empty: all blocks.
  Tensor blocks = {};  // (rows * heads, words) i32
  std::int64_t block = 0;
};

namespace op {

// Rotates R columns of every head, from column `first` of the head on, in place: the pairs (i, i + R/2), or
// with `neighbours` the pairs (2 i, 2 i + 1). cos and sin (positions, R/2) f32 hold any scaling; sign -1 is
// the transpose: the gradient. Su et al. 2021. `more` has the same rows, and other heads of that width: keys
// beside queries.
struct Rope {
  static constexpr const char* kName = "rope";
  InOut x, more = Tensor{};
  In cos, sin;
  In positions;  // (rows) i32
  std::int64_t head_width;
  float sign = 1;
  std::int64_t first = 0;
  bool neighbours = false;

  void check() const;
  void check_indices() const;
  double bytes() const;  // tables are not counted, because many rows share them
  void operands(auto&& visit) const {
    visit("x", x);
    visit("more", more);
    visit("cos", cos);
    visit("sin", sin);
    visit("positions", positions);
  }
};

// y (rows, H D) = softmax(scale q k^T + bias) v by head. Never holds a (T, T) matrix.
struct Attention {
  static constexpr const char* kName = "attention";
  Out y;
  Out lse;  // (H, rows) f32, for the gradient: natural logarithms of the denominators
  In q;     // (rows, H D)
  In k, v;  // (key rows, KV D)
  Heads heads;
  Mask mask;
  Scores scores = {};

  void check() const;
  double flops() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("lse", lse);
    visit("q", q);
    visit("k", k);
    visit("v", v);
    visit("blocks", In(mask.blocks.bits));
  }
};

// Takes seven products; without dbias five.
struct AttentionGrad {
  static constexpr const char* kName = "attention_grad";
  Out dq, dk, dv;
  Acc dbias = Tensor{};  // (2 reach + 1, H) f32
  In dy, y, lse, q, k, v;
  Heads heads;
  Mask mask;
  Scores scores = {};

  void check() const;
  double flops() const;
  void operands(auto&& visit) const {
    visit("dq", dq);
    visit("dk", dk);
    visit("dv", dv);
    visit("dbias", dbias);
    visit("dy", dy);
    visit("y", y);
    visit("lse", lse);
    visit("q", q);
    visit("k", k);
    visit("v", v);
    visit("blocks", In(mask.blocks.bits));
  }
};

// Extends attention over some keys by attention over other keys (Liu et al., "Ring Attention", 2023). With
// the logarithms of both denominators, all = log(exp(lse) + exp(other_lse)), for each row and head y =
// exp(lse - all) y + exp(other_lse - all) other, and lse = all.
struct MergeAttention {
  static constexpr const char* kName = "merge_attention";
  InOut y;       // (rows, H D) f32
  InOut lse;     // (H, rows) f32
  In other;      // as y, of any type
  In other_lse;  // as lse

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("lse", lse);
    visit("other", other);
    visit("other_lse", other_lse);
  }
};

// Adds a sink to each head's softmax: an unscaled score without a value that every row sees (gpt-oss). With
// all = log(exp(lse) + exp(sink)), y = exp(lse - all) y and lse = all. It runs after attention by any kernel.
// op::AttentionGrad of the new y and lse then gives the gradients of q, k and v, because the sink only adds a
// term to the denominator.
struct AttentionSinks {
  static constexpr const char* kName = "attention_sinks";
  InOut y;    // (rows, H D)
  InOut lse;  // (H, rows) f32
  In sinks;   // (H) of y's type

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("lse", lse);
    visit("sinks", sinks);
  }
};

// dsinks += - the sum over the rows of exp(sink - lse) (dy . y), the gradient of a score whose value is 0.
struct AttentionSinksGrad {
  static constexpr const char* kName = "attention_sinks_grad";
  Acc dsinks;  // (H) f32
  In dy;
  In y, lse;  // results of AttentionSinks
  In sinks;

  void check() const;
  void operands(auto&& visit) const {
    visit("dsinks", dsinks);
    visit("dy", dy);
    visit("y", y);
    visit("lse", lse);
    visit("sinks", sinks);
  }
};

// Attention of few queries to many keys in a cache of earlier tokens: y and q (rows, H D), k and v (keys, KV
// D). A row's result depends only on its own keys. For a bias, the last key is the row's own token.
// Generation only: there is no gradient and no dropout.
struct AttentionRanges {
  static constexpr const char* kName = "attention_ranges";
  Out y;
  Out lse = Tensor{};  // (H, rows) f32, as of Attention; empty: not wanted
  In q, k, v;
  Heads heads;
  KeyRanges ranges;
  Scores scores = {};

  void check() const;
  void check_indices() const;
  // of y and q only: just the device knows the rows' keys, so flops() leaves them out too
  double bytes() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("lse", lse);
    visit("q", q);
    visit("k", k);
    visit("v", v);
    visit("first", In(ranges.first));
    visit("count", In(ranges.count));
    visit("blocks", In(ranges.blocks));
  }
};

}  // namespace op
}  // namespace ft
