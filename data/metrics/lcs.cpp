#include "data/metrics/lcs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace ft::metrics {
namespace {

// A row of the table t(i, j), the length of the longest common subsequence of the first i rows and the first
// j columns. It stores differences: bit j is 0 if t(i, j + 1) = t(i, j) + 1.
using Row = std::vector<std::uint64_t>;

constexpr std::size_t kBits = 64;

// Returns t(i, j) for row i.
std::int64_t length_at(const Row& row, std::size_t j) {
  std::int64_t ones = 0;
  for (std::size_t w = 0; w < j / kBits; ++w) ones += std::popcount(row[w]);
  if (j % kBits != 0) ones += std::popcount(row[j / kBits] << (kBits - j % kBits));
  return static_cast<std::int64_t>(j) - ones;
}

bool grows(const Row& row, std::size_t j) { return (row[j / kBits] >> (j % kBits) & 1) == 0; }

class Table {
 public:
  explicit Table(const Symbols& columns) : marked_(columns.size() / kBits + 1) {
    for (std::size_t j = 0; j < columns.size(); ++j) places_[columns[j]].push_back(j);
    for (const auto& [symbol, places] : places_)
      if (places.size() > marked_.size()) mark(frequent_[symbol] = Row(marked_.size()), places);
  }
  Row first() const { return Row(marked_.size(), ~std::uint64_t{0}); }

  // Makes row i + 1 from row i: v = (v + (v & m)) | (v & ~m). The mask m marks the columns that have row i's
  // symbol.
  void next(Row& v, Symbol symbol) {
    const auto found = places_.find(symbol);
    if (found == places_.end()) return;
    const std::vector<std::size_t>& places = found->second;
    const auto frequent = frequent_.find(symbol);
    const bool rare = frequent == frequent_.end();
    if (rare) mark(marked_, places);
    const Row& m = rare ? marked_ : frequent->second;
    bool carry = false;
    for (std::size_t w = places.front() / kBits; w < v.size(); ++w) {
      const std::uint64_t matched = v[w] & m[w], sum = v[w] + matched, all = sum + carry;
      carry = sum < matched || all < sum;
      v[w] = all | (v[w] & ~m[w]);
    }
    if (rare)
      for (const std::size_t j : places) marked_[j / kBits] = 0;
  }

 private:
  using Places = std::vector<std::size_t>;
  static void mark(Row& row, const Places& places) {
    for (const std::size_t j : places) row[j / kBits] |= std::uint64_t{1} << (j % kBits);
  }

  std::unordered_map<Symbol, Places> places_;  // ascending
  std::unordered_map<Symbol, Row>
      frequent_;  // masks of symbols in more columns than a row has words: fewer than 64
  Row marked_;    // the mask of any other symbol, one at a time
};

// Rows 0 to n. Only some are kept; at() computes those between them again.
class Rows {
 public:
  Rows(const Symbols& rows, const Symbols& columns)
      : rows_(rows), table_(columns), step_(static_cast<std::size_t>(std::sqrt(rows.size())) + 1) {
    Row v = table_.first();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i % step_ == 0) kept_.push_back(v);
      table_.next(v, rows[i]);
    }
  }
  // Returns rows i - 1 and i, for i from 1 on. They live until the next call.
  std::pair<const Row&, const Row&> at(std::size_t i) {
    const std::size_t block = (i - 1) / step_, begin = block * step_;
    if (block_.empty() || begin != begin_) {
      begin_ = begin;
      block_.assign(1, kept_[block]);
      for (std::size_t r = begin; r < std::min(begin + step_, rows_.size()); ++r) {
        block_.push_back(block_.back());
        table_.next(block_.back(), rows_[r]);
      }
    }
    return {block_[i - 1 - begin], block_[i - begin]};
  }

 private:
  const Symbols& rows_;
  Table table_;
  std::size_t step_, begin_ = 0;
  std::vector<Row> kept_, block_;
};

}  // namespace

std::int64_t lcs_length(const Symbols& rows, const Symbols& columns) {
  Table table(columns);
  Row v = table.first();
  for (const Symbol symbol : rows) table.next(v, symbol);
  return length_at(v, columns.size());
}

std::vector<std::size_t> lcs_rows(const Symbols& rows, const Symbols& columns) {
  std::vector<std::size_t> out;
  Rows table(rows, columns);
  for (std::size_t i = rows.size(), j = columns.size(); i > 0 && j > 0; --i) {
    const auto [above, row] = table.at(i);
    std::int64_t here = length_at(row, j), higher = length_at(above, j);
    // Go left as long as t(i, j - 1) > t(i - 1, j).
    while (j > 0 && rows[i - 1] != columns[j - 1] && here - grows(row, j - 1) > higher) {
      here -= grows(row, j - 1);
      higher -= grows(above, j - 1);
      --j;
    }
    if (j > 0 && rows[i - 1] == columns[j - 1]) {
      out.push_back(i - 1);
      --j;
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace ft::metrics
