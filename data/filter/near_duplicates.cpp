#include "data/filter/near_duplicates.h"

#include <algorithm>
#include <string>

#include "engine/core/random.h"
#include "engine/core/require.h"

namespace ft {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ull;

// splitmix64's output function (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

bool in_word(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

// Returns the words, each followed by a space, and the end of each.
std::pair<std::string, std::vector<std::size_t>> words_of(std::string_view text) {
  std::string words;
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < text.size();) {
    if (!in_word(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    for (; i < text.size() && in_word(static_cast<unsigned char>(text[i])); ++i)
      words += text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
    ends.push_back(words.size());
    words += ' ';
  }
  return {std::move(words), std::move(ends)};
}

}  // namespace

Signature signature_of(std::string_view text, const NearRule& rule) {
  const auto [words, ends] = words_of(text);
  if (ends.empty()) return {};
  Signature least(static_cast<std::size_t>(rule.permutations), UINT32_MAX);
  const std::size_t n = std::min(static_cast<std::size_t>(rule.ngram), ends.size());
  for (std::size_t first = 0; first + n <= ends.size(); ++first) {
    const std::size_t begin = first == 0 ? 0 : ends[first - 1] + 1;
    std::uint64_t x = hash_name(std::string_view(words).substr(begin, ends[first + n - 1] - begin));
    for (std::uint32_t& value : least) {
      x += kGolden;
      value = std::min(value, static_cast<std::uint32_t>(mix(x) >> 32));
    }
  }
  return least;
}

NearDuplicates::NearDuplicates(const NearRule& rule) : rule_(rule) {
  require(rule.bands > 0 && rule.permutations % rule.bands == 0, "bands of equal size");
}

std::span<const std::uint32_t> NearDuplicates::kept(std::int64_t text) const {
  const auto each = static_cast<std::size_t>(rule_.permutations);
  return std::span(signatures_).subspan(static_cast<std::size_t>(text) * each, each);
}

std::uint64_t NearDuplicates::band_key(std::span<const std::uint32_t> signature, std::int64_t band) const {
  const auto rows = static_cast<std::size_t>(rule_.permutations / rule_.bands);
  std::uint64_t key = static_cast<std::uint64_t>(band);
  for (const std::uint32_t value : signature.subspan(static_cast<std::size_t>(band) * rows, rows))
    key = mix((key ^ value) + kGolden);
  return key;
}

bool NearDuplicates::is_duplicate(const Signature& signature) {
  if (signature.empty()) return false;
  require(std::ssize(signature) == rule_.permutations, "a signature of all permutations");
  const auto bands = static_cast<std::size_t>(rule_.bands);
  const auto rows = static_cast<std::size_t>(rule_.permutations / rule_.bands);
  std::vector<std::uint64_t> keys;
  for (std::size_t band = 0; band < bands; ++band) {
    keys.push_back(band_key(signature, static_cast<std::int64_t>(band)));
    const auto found = last_.find(keys.back());
    for (std::int32_t other = found == last_.end() ? -1 : found->second; other >= 0;
         other = before_[static_cast<std::size_t>(other) * bands + band]) {
      const auto theirs = kept(other);
      // Keys of different bands or values may be equal by chance.
      const auto own = signature.begin() + static_cast<std::ptrdiff_t>(band * rows);
      if (!std::equal(own, own + static_cast<std::ptrdiff_t>(rows),
                      theirs.begin() + static_cast<std::ptrdiff_t>(band * rows)))
        continue;
      std::int64_t equal = 0;
      for (std::size_t i = 0; i < theirs.size(); ++i) equal += theirs[i] == signature[i];
      if (static_cast<double>(equal) >= rule_.threshold * static_cast<double>(rule_.permutations))
        return true;
    }
  }
  const auto text = static_cast<std::int32_t>(before_.size() / bands);
  for (const std::uint64_t key : keys) {
    const auto [place, fresh] = last_.try_emplace(key, text);
    before_.push_back(fresh ? -1 : place->second);
    place->second = text;
  }
  signatures_.insert(signatures_.end(), signature.begin(), signature.end());
  return false;
}

std::int64_t NearDuplicates::bytes() const {
  constexpr std::int64_t kEntry = 40;  // of last_: the entry, its node and its bucket
  return static_cast<std::int64_t>(4 * (signatures_.capacity() + before_.capacity())) +
         kEntry * static_cast<std::int64_t>(last_.size());
}

}  // namespace ft
