#include "engine/ops/block_layout.h"

#include <algorithm>
#include <bit>

#include "engine/core/require.h"

namespace ft {

BlockLayout::BlockLayout(std::int64_t heads, std::int64_t blocks, std::int64_t block)
    : heads_(heads), blocks_(blocks), block_(block) {
  require(heads > 0 && blocks > 0 && is_attention_block(block), "a layout of no blocks");
  bits_.resize(static_cast<std::size_t>(heads * blocks * words()));
}

// Pairs that the queries of one block row see, without a window.
double BlockLayout::pairs_of_row(std::int64_t head, std::int64_t r, std::int64_t n, bool causal) const {
  const std::int64_t end = causal ? r : n / block_;  // earlier columns are complete blocks
  const std::int64_t queries = std::min(block_, n - r * block_);
  const std::span<const std::uint32_t> bits = row(head, r);
  std::int64_t whole = 0;
  for (std::int64_t w = 0; w * 32 < end; ++w) {
    const std::int64_t left = end - w * 32;
    const std::uint32_t among = left < 32 ? (1u << left) - 1 : ~0u;
    whole += std::popcount(bits[static_cast<std::size_t>(w)] & among);
  }
  const auto pairs = static_cast<double>(queries * whole * block_);
  if (end * block_ >= n || !keeps(head, r, end)) return pairs;
  return pairs + static_cast<double>(causal ? queries * (queries + 1) / 2 : queries * (n % block_));
}

double BlockLayout::pairs(std::int64_t n, bool causal, std::int64_t window) const {
  double all = 0;
  for (std::int64_t h = 0; h < heads_; ++h) {
    if (window == 0) {
      for (std::int64_t r = 0; r * block_ < n; ++r) all += pairs_of_row(h, r, n, causal);
      continue;
    }
    for (std::int64_t query = 0; query < n; ++query) {
      const std::int64_t to = causal ? query + 1 : n;
      for (std::int64_t key = std::max<std::int64_t>(0, query - window + 1), next = 0; key < to; key = next) {
        next = std::min(to, (key / block_ + 1) * block_);
        if (keeps(h, query / block_, key / block_)) all += static_cast<double>(next - key);
      }
    }
  }
  return all / static_cast<double>(heads_);
}

}  // namespace ft
