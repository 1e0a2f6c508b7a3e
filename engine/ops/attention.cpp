#include "engine/ops/attention.h"

#include <algorithm>

#include "engine/ops/checks.h"

namespace ft {

double visible_pairs(const Mask& mask) {
  double pairs = 0;
  for (std::size_t i = 1; i < mask.starts.size(); ++i) {
    const std::int64_t n = mask.starts[i] - mask.starts[i - 1];
    if (!mask.key_starts.empty()) {
      const std::int64_t beyond = mask.window > 0 ? std::max<std::int64_t>(0, n - mask.window) : 0;
      pairs += double(n) * double(mask.key_starts[i] - mask.key_starts[i - 1]) -
               double(beyond) * double(beyond + 1) / 2;
      continue;
    }
    if (mask.blocks) {
      pairs += mask.blocks.layout->pairs(n, mask.causal, mask.window);
      continue;
    }
    const std::int64_t w = mask.window > 0 ? std::min(mask.window, n) : n;  // keys up to the query's own
    const std::int64_t past = w * (w + 1) / 2 + (n - w) * w;                // the query's own key included
    const std::int64_t future = n * (n - 1) / 2;
    pairs += double(mask.causal ? past : past + future);
  }
  return pairs;
}

namespace op {
namespace {

void check_heads(const Heads& heads) {
  require(heads.query > 0 && heads.key_value > 0 && heads.width > 0 && heads.query % heads.key_value == 0,
          "attention: the query heads are not a multiple of the key heads");
}

void check_scores(const Scores& s, const Tensor& q, const Heads& heads) {
  require(!s.bias || (s.bias.dtype == q.dtype && s.bias.cols() == heads.query && s.bias.rows() % 2 == 1),
          "attention: the bias is not (2 reach + 1, H)");
  require(s.cap >= 0 && (s.cap == 0 || !s.bias), "attention: a cap is below 0, or beside a bias");
  require(s.scale > 0 && 0 <= s.dropout && s.dropout < 1, "attention: scale or dropout is out of range");
}

// Checks that blocks are for self-attention, and that they cover the longest sequence.
void check_blocks(const Mask& mask, const Heads& heads) {
  const BlockMask& b = mask.blocks;
  if (!b) return require(!b.bits, "attention: bits without a layout");
  require(mask.key_starts.empty(), "attention: blocks are of self-attention only");
  require(b.layout->heads() == 1 || b.layout->heads() == heads.query, "attention: a layout of other heads");
  require(b.bits.dtype == DType::i32 && b.bits.dense() && b.bits.cols() == b.layout->words() &&
              b.bits.rows() % b.layout->heads() == 0 && b.rows() <= b.layout->blocks(),
          "attention: the blocks are not (heads * rows, words) i32");
  for (std::size_t i = 1; i < mask.starts.size(); ++i)
    require(mask.starts[i] - mask.starts[i - 1] <= b.rows() * b.layout->block(),
            "attention: a sequence longer than its layout");
}

// True if the sequences that these starts describe cover exactly `rows` rows.
bool cover(std::span<const std::int32_t> starts, std::int64_t rows) {
  return !starts.empty() && starts.front() == 0 && starts.back() == rows;
}

// a: Attention or AttentionGrad.
template <class A>
void check_attention(const A& a) {
  check_heads(a.heads);
  check_scores(a.scores, a.q, a.heads);
  check_blocks(a.mask, a.heads);
  const Mask& mask = a.mask;
  const std::span<const std::int32_t> starts = mask.starts, key_starts = mask.starts_of_keys();
  require(is_float(a.q) && a.q.cols() == a.heads.query * a.heads.width && alike(a.y, a.q),
          "attention: q or y is not (rows, H D)");
  require(a.k.dtype == a.q.dtype && a.k.cols() == a.heads.key_value * a.heads.width && alike(a.v, a.k),
          "attention: k or v is not (key rows, KV D)");
  require(is_vector(a.lse, a.heads.query * a.q.rows(), DType::f32), "attention: lse is not (H, rows) f32");
  require(mask.window >= 0 && cover(starts, a.q.rows()) && cover(key_starts, a.k.rows()) &&
              starts.size() == key_starts.size(),
          "attention: the sequences do not cover the rows");
  require(mask.key_starts.empty() || (!mask.causal && !a.scores.bias),
          "attention: keys of other tokens have no places beside the queries'");
  require(mask.key_starts.empty() || mask.window == 0 ||
              (starts.size() == 2 && a.q.rows() - mask.window < a.k.rows()),
          "attention: a window over other keys is of one sequence, whose queries all see some");
  for (std::size_t i = 1; i < starts.size(); ++i) {
    require(starts[i - 1] <= starts[i] && key_starts[i - 1] <= key_starts[i],
            "attention: the sequences' starts are not ascending");
    require(starts[i - 1] == starts[i] || key_starts[i - 1] < key_starts[i],
            "attention: queries without any key");
  }
}

// FLOPs of this many products of the size of q k^T.
double flops_of_products(int products, const Heads& heads, const Mask& mask) {
  return 2.0 * products * double(heads.query * heads.width) * visible_pairs(mask);
}

}  // namespace

void Rope::check() const {
  require(is_float(x) && head_width > 0, "rope: the heads have no width");
  require(x.cols() % head_width == 0, "rope: the columns are not whole heads");
  require(!more || (more.dtype == x.dtype && more.rows() == x.rows() && more.cols() % head_width == 0),
          "rope: more is not whole heads in as many rows");
  require(alike(cos, sin) && cos.dtype == DType::f32 && cos.dense() && sin.dense() && first >= 0 &&
              first + cos.cols() * 2 <= head_width,
          "rope: cos and sin are not (positions, R / 2) f32");
  require(is_vector(positions, x.rows(), DType::i32), "rope: positions is not one i32 for every row");
}
void Rope::check_indices() const {
  require(all_below(positions, cos.rows()), "rope: a position beyond the table");
}
double Rope::bytes() const { return 2 * (bytes_of(x) + bytes_of(more)) + bytes_of(positions); }

void Attention::check() const { check_attention(*this); }
double Attention::flops() const { return flops_of_products(2, heads, mask); }  // q k^T and p v

void AttentionGrad::check() const {
  check_attention(*this);
  require(!dbias || (scores.bias && dbias.dtype == DType::f32 && same_size(dbias, scores.bias)),
          "attention_grad: dbias is not the bias' size in f32");
  require(alike(dq, q) && alike(dk, k) && alike(dv, v) && alike(dy, y),
          "attention_grad: a gradient differs from its tensor");
}
// q k^T again, dy v^T, and the three gradients
double AttentionGrad::flops() const { return flops_of_products(5, heads, mask); }

void MergeAttention::check() const {
  require(y.dtype == DType::f32 && is_float(other) && same_size(y, other),
          "merge_attention: y is not f32, or other differs in shape");
  require(lse.dtype == DType::f32 && alike(lse, other_lse) && lse.cols() == y.rows() && lse.rows() > 0 &&
              y.cols() % lse.rows() == 0,
          "merge_attention: lse or other_lse is not (H, rows) f32");
}

namespace {

void check_sinks(const Tensor& y, const Tensor& lse, const Tensor& sinks) {
  const std::int64_t heads = lse.rows();
  require(
      is_float(y) && lse.dtype == DType::f32 && lse.cols() == y.rows() && heads > 0 && y.cols() % heads == 0,
      "attention_sinks: lse is not (H, rows) f32");
  require(is_vector(sinks, heads, y.dtype), "attention_sinks: the sinks are not one for every head");
}

}  // namespace

void AttentionSinks::check() const { check_sinks(y, lse, sinks); }
void AttentionSinksGrad::check() const {
  check_sinks(y, lse, sinks);
  require(alike(dy, y) && is_vector(dsinks, lse.rows(), DType::f32),
          "attention_sinks_grad: dy or dsinks differs from its tensor");
}

void AttentionRanges::check() const {
  check_heads(heads);
  check_scores(scores, q, heads);
  require(scores.dropout == 0, "attention_ranges: no dropout in generation");
  require(is_float(q) && q.cols() == heads.query * heads.width && alike(y, q),
          "attention_ranges: q or y is not (rows, H D)");
  require(!lse || (lse.dtype == DType::f32 && lse.rows() == heads.query && lse.cols() == q.rows()),
          "attention_ranges: lse is not (H, rows) f32");
  require(k.dtype == q.dtype && k.cols() == heads.key_value * heads.width && alike(v, k),
          "attention_ranges: k or v is not (keys, KV D)");
  require(is_vector(ranges.first, q.rows(), DType::i32) && is_vector(ranges.count, q.rows(), DType::i32) &&
              ranges.window >= 0,
          "attention_ranges: first and count are not one i32 for every row");
  const Tensor& blocks = ranges.blocks;
  require(!blocks || (is_attention_block(ranges.block) && blocks.dtype == DType::i32 && blocks.dense() &&
                      (blocks.rows() == q.rows() || blocks.rows() == q.rows() * heads.query)),
          "attention_ranges: the blocks are not (rows * heads, words) i32");
}
void AttentionRanges::check_indices() const {
  const auto *first = ranges.first.as<std::int32_t>(), *count = ranges.count.as<std::int32_t>();
  for (std::int64_t row = 0; row < q.rows(); ++row)
    require(first[row] >= 0 && count[row] >= 1 && first[row] + std::int64_t{count[row]} <= k.rows(),
            "attention_ranges: keys that are not there");
  if (!ranges.blocks) return;
  for (std::int64_t row = 0; row < q.rows(); ++row)
    require(count[row] <= ranges.blocks.cols() * 32 * ranges.block,
            "attention_ranges: more keys than the blocks are of");
}
double AttentionRanges::bytes() const { return bytes_of(y) + bytes_of(q); }

}  // namespace op
}  // namespace ft
