// Rules by which rows are left out of data, in this order: rows that are too short or too long, rows that
// equal an earlier one, rows that nearly equal an earlier one. A row is compared with the rows that were
// kept.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "data/files/row_reader.h"
#include "data/filter/near_duplicates.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/core/words.h"

namespace ft {

struct FilterRules {
  std::vector<std::string> fields{};  // that are looked at; empty: all
  std::optional<std::int64_t> min_tokens{}, max_tokens{};
  bool exact = false;
  std::optional<NearRule> near{};
  std::int64_t most_bytes = std::int64_t{8} << 30;  // memory for hashes and signatures of kept rows
};

// Treatment of a row: kept, or the rule that leaves it out.
enum class RowFate : std::uint8_t { kept, too_short, too_long, equal, near };
constexpr auto words(RowFate) {
  using enum RowFate;
  return to_words<RowFate>({{kept, "kept"},
                            {too_short, "too_short"},
                            {too_long, "too_long"},
                            {equal, "exact_duplicates"},
                            {near, "near_duplicates"}});
}
inline constexpr std::size_t kRowFates = 5;

class RowFilter {
 public:
  // tokenizer: needed for the rules about tokens.
  RowFilter(FilterRules rules, const Tokenizer* tokenizer);

  // A row as the rules see it.
  struct Facts {
    std::int64_t tokens = 0;
    std::array<std::uint64_t, 2> hash{};
    Signature signature{};
  };
  // Called from several threads. The text of a row is all texts in its fields, in order, joined by line
  // feeds. Throws UserError (input) if the row is no object, or lacks a field.
  Facts facts(const Row&, const Place&) const;
  // Called for the rows in order. Throws UserError (memory) if most_bytes are used up.
  RowFate judge(const Facts&);

  std::int64_t count(RowFate fate) const { return counts_[static_cast<std::size_t>(fate)]; }

 private:
  struct HashOfHash {
    std::size_t operator()(const std::array<std::uint64_t, 2>& hash) const { return hash[0]; }
  };
  RowFate fate_of(const Facts&);
  void require_room() const;

  FilterRules rules_;
  const Tokenizer* tokenizer_;
  std::unordered_set<std::array<std::uint64_t, 2>, HashOfHash> seen_;
  std::optional<NearDuplicates> near_;
  std::array<std::int64_t, kRowFates> counts_{};
};

}  // namespace ft
