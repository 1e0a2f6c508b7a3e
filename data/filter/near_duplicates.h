// Finds texts that nearly equal earlier ones, by MinHash and bands: Broder, "On the resemblance and
// containment of documents", 1997; Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", 3.3 and 3.4.
//
// A text is its set of n-grams: n consecutive words, separated by one space. A word is a longest run of ASCII
// letters, digits and bytes of other characters; ASCII letters count as small ones. A text of fewer words is
// one n-gram of all of them, a text without words has none. Permutation i of an n-gram with FNV-1a hash x
// (engine/core/random.h) is the upper half of mix(x + (i + 1) 0x9e3779b97f4a7c15), mix being splitmix64's.
// The signature has, for each permutation, the least value over the n-grams: two signatures agree in a
// permutation with the chance of the sets' Jaccard similarity, |A and B| / |A or B|.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ft {

struct NearRule {
  std::int64_t ngram = 5;           // words
  std::int64_t permutations = 128;  // a multiple of bands
  std::int64_t bands = 16;          // texts of similarity s are compared with the chance 1 - (1 - s^r)^bands,
                                    // r = permutations / bands
  double threshold = 0.7;           // least share of equal permutations of near duplicates
};

using Signature = std::vector<std::uint32_t>;  // by permutation; empty: the text has no words

Signature signature_of(std::string_view text, const NearRule&);

// The texts that were kept so far.
class NearDuplicates {
 public:
  explicit NearDuplicates(const NearRule& rule);

  // Returns true if a kept text has all of a band's permutations in common with this one, and of all
  // permutations at least the threshold's share; else keeps this text. A text without words is never a
  // duplicate.
  bool is_duplicate(const Signature&);
  std::int64_t bytes() const;  // of memory, estimated

 private:
  std::span<const std::uint32_t> kept(std::int64_t text) const;
  std::uint64_t band_key(std::span<const std::uint32_t> signature, std::int64_t band) const;

  NearRule rule_;
  std::vector<std::uint32_t> signatures_;  // of kept texts
  // By band and its permutations: the kept text that had them last; and by kept text and band, the one before
  // it, -1: none.
  std::unordered_map<std::uint64_t, std::int32_t> last_;
  std::vector<std::int32_t> before_;
};

}  // namespace ft
