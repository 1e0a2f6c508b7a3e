#include "data/filter/filter.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "data/files/json_row.h"
#include "engine/core/error.h"
#include "engine/files/hash.h"

namespace ft {
namespace {

// Appends all texts in a value, each followed by a line feed.
void add_texts(const Json& value, std::string& to) {
  if (value.is_string()) to.append(value.get_ref<const std::string&>()).push_back('\n');
  if (value.is_structured())
    for (const Json& part : value) add_texts(part, to);
}

// Returns half of the SHA-256 of a value's JSON with sorted keys.
std::array<std::uint64_t, 2> hash_of(const Json& value) {
  const std::string digits = sha256(nlohmann::json(value).dump());
  std::array<std::uint64_t, 2> hash{};
  for (std::size_t i = 0; i < hash.size(); ++i)
    std::from_chars(digits.data() + 16 * i, digits.data() + 16 * (i + 1), hash[i], 16);
  return hash;
}

// Returns the fields of a row that are looked at.
Json chosen(Json row, const std::vector<std::string>& fields, const Place& at) {
  if (fields.empty()) return row;
  Json some = Json::object();
  for (const std::string& name : fields) {
    const auto found = row.find(name);
    if (found == row.end() || found->is_null()) at.fail(str("no \"", printable(name), "\" (--fields)"));
    some[name] = std::move(*found);
  }
  return some;
}

}  // namespace

RowFilter::RowFilter(FilterRules rules, const Tokenizer* tokenizer)
    : rules_(std::move(rules)), tokenizer_(tokenizer) {
  require(tokenizer_ || (!rules_.min_tokens && !rules_.max_tokens), "a tokenizer for rules about tokens");
  if (rules_.near) near_.emplace(*rules_.near);
}

RowFilter::Facts RowFilter::facts(const Row& row, const Place& at) const {
  const Json looked_at = chosen(read_row(row.text, at, NonFinite::null), rules_.fields, at);
  std::string text;
  add_texts(looked_at, text);
  if (!text.empty()) text.pop_back();
  Facts facts;
  if (rules_.min_tokens || rules_.max_tokens) facts.tokens = std::ssize(tokenizer_->encode(text));
  if (rules_.exact) facts.hash = hash_of(looked_at);
  if (rules_.near) facts.signature = signature_of(text, *rules_.near);
  return facts;
}

RowFate RowFilter::judge(const Facts& facts) {
  const RowFate fate = fate_of(facts);
  ++counts_[static_cast<std::size_t>(fate)];
  if (fate == RowFate::kept) require_room();
  return fate;
}

RowFate RowFilter::fate_of(const Facts& facts) {
  if (rules_.min_tokens && facts.tokens < *rules_.min_tokens) return RowFate::too_short;
  if (rules_.max_tokens && facts.tokens > *rules_.max_tokens) return RowFate::too_long;
  if (rules_.exact && seen_.contains(facts.hash)) return RowFate::equal;
  if (near_ && near_->is_duplicate(facts.signature)) return RowFate::near;
  if (rules_.exact) seen_.insert(facts.hash);
  return RowFate::kept;
}

void RowFilter::require_room() const {
  constexpr std::int64_t kEntry = 48;  // of seen_: the hash, its node and its bucket
  const std::int64_t used = kEntry * std::ssize(seen_) + (near_ ? near_->bytes() : 0);
  if (used > rules_.most_bytes)
    throw UserError(Exit::memory,
                    str("--memory-gib: ", count(RowFate::kept),
                        " rows are kept so far, and what "
                        "is known of them takes more than ",
                        static_cast<double>(rules_.most_bytes) / (std::int64_t{1} << 30),
                        " GiB; give more, or filter parts of the data, or fewer --permutations"));
}

}  // namespace ft
