// Layout of sparse attention: the blocks of queries and keys that are computed (Child et al. 2019).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/divide.h"

namespace ft {

constexpr bool is_attention_block(std::int64_t n) { return n == 16 || n == 32 || n == 64 || n == 128; }

// Bits (heads, blocks, blocks): set if a block of queries (a row) sees a block of keys (a column). Tokens are
// counted from the first of their sequence; a short sequence uses the layout's upper left corner. Every block
// sees itself, so that every query sees a key.
class BlockLayout {
 public:
  // heads: 1 for one layout of all query heads, or their number. block: number of tokens, see
  // is_attention_block.
  BlockLayout(std::int64_t heads, std::int64_t blocks, std::int64_t block);

  std::int64_t heads() const { return heads_; }
  std::int64_t blocks() const { return blocks_; }
  std::int64_t block() const { return block_; }
  std::int64_t words() const { return ceil_div(blocks_, std::int64_t{32}); }  // words of a row

  void keep(std::int64_t head, std::int64_t row, std::int64_t column) {
    bits_[word(head, row, column)] |= 1u << (column % 32);
  }
  bool keeps(std::int64_t head, std::int64_t row, std::int64_t column) const {
    return (bits_[word(head, row, column)] >> (column % 32) & 1) != 0;
  }
  // Bits of a row: column c is bit c % 32 of word c / 32. Rows of a head follow each other.
  std::span<const std::uint32_t> row(std::int64_t head, std::int64_t row) const {
    return std::span(bits_).subspan(word(head, row, 0), static_cast<std::size_t>(words()));
  }

  // Number of pairs that are computed for a sequence of n tokens, with the causal mask and window of
  // ft::Mask: the mean of the heads.
  double pairs(std::int64_t n, bool causal, std::int64_t window) const;

 private:
  std::size_t word(std::int64_t head, std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((head * blocks_ + row) * words() + column / 32);
  }
  double pairs_of_row(std::int64_t head, std::int64_t row, std::int64_t n, bool causal) const;

  std::int64_t heads_, blocks_, block_;
  std::vector<std::uint32_t> bits_;
};

}  // namespace ft
