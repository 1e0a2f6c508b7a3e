// Cuts a text into words or characters for the metrics, as the Python packages do, so that scores are equal
// to theirs. Texts are UTF-8; an invalid byte counts as one character.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ft::metrics {

// A word's number in a Vocabulary, or a character.
using Symbol = std::uint32_t;
using Symbols = std::vector<Symbol>;

// Splits at white space as Python's str.split() does: at Unicode's, and at the separators U+001C to U+001F.
std::vector<std::string_view> split(std::string_view text);
// Returns the characters without that white space.
Symbols characters(std::string_view text);

// Returns WMT's tokens (mteval-v13a.pl), in sacreBLEU's form 13a: words and punctuation, separated by spaces.
std::string tokenize_13a(std::string_view text);
// Returns rouge-score's tokens: runs of a-z and 0-9 of the lower-cased text; all other characters separate.
// stem: words of more than three letters are cut to their stems (stemmer.h).
std::vector<std::string> tokenize_rouge(std::string_view text, bool stem = false);

// Numbers words, so that n-grams can be compared quickly.
class Vocabulary {
 public:
  template <class Words>
  Symbols numbers(const Words& words) {
    Symbols out;
    for (const auto& word : words)
      out.push_back(
          numbers_.try_emplace(std::string(word), static_cast<Symbol>(numbers_.size())).first->second);
    return out;
  }

 private:
  std::map<std::string, Symbol> numbers_;
};

}  // namespace ft::metrics
