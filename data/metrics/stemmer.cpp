#include "data/metrics/stemmer.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::metrics {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Exceptions from the rules.
constexpr std::array kIrregular = {
    Pair{"skies", "sky"},      Pair{"sky", "sky"},          Pair{"dying", "die"},
    Pair{"lying", "lie"},      Pair{"tying", "tie"},        Pair{"news", "news"},
    Pair{"innings", "inning"}, Pair{"inning", "inning"},    Pair{"outings", "outing"},
    Pair{"outing", "outing"},  Pair{"cannings", "canning"}, Pair{"canning", "canning"},
    Pair{"howe", "howe"},      Pair{"proceed", "proceed"},  Pair{"exceed", "exceed"},
    Pair{"succeed", "succeed"}};

bool is_vowel(char c) { return std::string_view("aeiou").find(c) != std::string_view::npos; }

// Marks the consonants among the letters. A y is a consonant at the beginning and after a vowel.
std::vector<bool> consonants(std::string_view word) {
  std::vector<bool> out;
  for (const char c : word) out.push_back(c == 'y' ? out.empty() || !out.back() : !is_vowel(c));
  return out;
}

// Returns m of [C](VC)^m[V], runs of consonants and of vowels.
int measure(std::string_view stem) {
  const std::vector<bool> c = consonants(stem);
  int m = 0;
  for (std::size_t i = 1; i < c.size(); ++i) m += !c[i - 1] && c[i];
  return m;
}

bool has_vowel(std::string_view stem) {
  const std::vector<bool> c = consonants(stem);
  return std::find(c.begin(), c.end(), false) != c.end();
}

bool ends_in_consonant(std::string_view stem) { return consonants(stem).back(); }

bool ends_in_double_consonant(std::string_view stem) {
  return stem.size() >= 2 && stem.back() == stem[stem.size() - 2] && ends_in_consonant(stem);
}

// Porter's condition *o: ends in consonant, vowel, and a consonant that is not w, x or y; a word of two
// letters in vowel and consonant.
bool ends_short(std::string_view stem) {
  const std::vector<bool> c = consonants(stem);
  const std::size_t n = c.size();
  if (n == 2) return !c[0] && c[1];
  return n > 2 && c[n - 3] && !c[n - 2] && c[n - 1] &&
         std::string_view("wxy").find(stem.back()) == std::string_view::npos;
}

struct Rule {
  std::string_view suffix, replacement;
};

// Applies the first rule whose suffix the word has, if the rest is long enough; later rules are not tried.
void apply(std::string& word, std::span<const Rule> rules, int least_measure) {
  for (const Rule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    const std::string_view stem = std::string_view(word).substr(0, word.size() - rule.suffix.size());
    if (measure(stem) >= least_measure) word.replace(stem.size(), rule.suffix.size(), rule.replacement);
    return;
  }
}

// Removes plurals.
void step_1a(std::string& word) {
  static constexpr std::array kRules = {Rule{"sses", "ss"}, Rule{"ies", "i"}, Rule{"ss", "ss"},
                                        Rule{"s", ""}};
  if (word.size() == 4 && word.ends_with("ies")) return word.pop_back();
  apply(word, kRules, 0);
}

// Repairs the end of a word after -ed or -ing was removed.
void mend(std::string& word) {
  for (const std::string_view end : {"at", "bl", "iz"})
    if (word.ends_with(end)) return word.push_back('e');
  if (ends_in_double_consonant(word)) {
    if (std::string_view("lsz").find(word.back()) == std::string_view::npos) word.pop_back();
  } else if (measure(word) == 1 && ends_short(word)) {
    word.push_back('e');
  }
}

void step_1b(std::string& word) {
  if (word.ends_with("ied")) {
    word.resize(word.size() - (word.size() == 4 ? 1 : 2));
    return;
  }
  if (word.ends_with("eed")) {
    if (measure(std::string_view(word).substr(0, word.size() - 3)) > 0) word.pop_back();
    return;
  }
  for (const std::string_view suffix : {"ed", "ing"}) {
    if (!word.ends_with(suffix) || !has_vowel(std::string_view(word).substr(0, word.size() - suffix.size())))
      continue;
    word.resize(word.size() - suffix.size());
    return mend(word);
  }
}

void step_1c(std::string& word) {
  if (word.size() > 2 && word.ends_with('y') &&
      ends_in_consonant(std::string_view(word).substr(0, word.size() - 1)))
    word.back() = 'i';
}

// Shortens double suffixes.
void step_2(std::string& word) {
  static constexpr std::array kRules = {
      Rule{"ational", "ate"}, Rule{"tional", "tion"}, Rule{"enci", "ence"},   Rule{"anci", "ance"},
      Rule{"izer", "ize"},    Rule{"bli", "ble"},     Rule{"alli", "al"},     Rule{"entli", "ent"},
      Rule{"eli", "e"},       Rule{"ousli", "ous"},   Rule{"ization", "ize"}, Rule{"ation", "ate"},
      Rule{"ator", "ate"},    Rule{"alism", "al"},    Rule{"iveness", "ive"}, Rule{"fulness", "ful"},
      Rule{"ousness", "ous"}, Rule{"aliti", "al"},    Rule{"iviti", "ive"},   Rule{"biliti", "ble"},
      Rule{"fulli", "ful"}};
  const auto before = [&](std::size_t suffix) {
    return std::string_view(word).substr(0, word.size() - suffix);
  };
  while (word.ends_with("alli") && measure(before(4)) > 0) word.resize(word.size() - 2);
  if (word.ends_with("logi")) {  // the l belongs to the stem: geo, theo
    if (measure(before(3)) > 0) word.pop_back();
    return;
  }
  apply(word, kRules, 1);
}

void step_3(std::string& word) {
  static constexpr std::array kRules = {Rule{"icate", "ic"}, Rule{"ative", ""},  Rule{"alize", "al"},
                                        Rule{"iciti", "ic"}, Rule{"ical", "ic"}, Rule{"ful", ""},
                                        Rule{"ness", ""}};
  apply(word, kRules, 1);
}

void step_4(std::string& word) {
  static constexpr std::array kRules = {
      Rule{"al", ""},   Rule{"ance", ""}, Rule{"ence", ""}, Rule{"er", ""},    Rule{"ic", ""},
      Rule{"able", ""}, Rule{"ible", ""}, Rule{"ant", ""},  Rule{"ement", ""}, Rule{"ment", ""},
      Rule{"ent", ""},  Rule{"ou", ""},   Rule{"ism", ""},  Rule{"ate", ""},   Rule{"iti", ""},
      Rule{"ous", ""},  Rule{"ive", ""},  Rule{"ize", ""}};
  if (!word.ends_with("ion")) return apply(word, kRules, 2);
  const std::string_view stem = std::string_view(word).substr(0, word.size() - 3);
  if (measure(stem) > 1 && (stem.ends_with('s') || stem.ends_with('t'))) word.resize(stem.size());
}

void step_5(std::string& word) {
  const auto shorter = [&] { return std::string_view(word).substr(0, word.size() - 1); };
  if (word.ends_with('e')) {
    const int m = measure(shorter());
    if (m > 1 || (m == 1 && !ends_short(shorter()))) word.pop_back();
  }
  if (word.ends_with("ll") && measure(shorter()) > 1) word.pop_back();
}

}  // namespace

std::string porter_stem(std::string word) {
  for (const auto& [irregular, stem] : kIrregular)
    if (word == irregular) return std::string(stem);
  step_1a(word);
  step_1b(word);
  step_1c(word);
  step_2(word);
  step_3(word);
  step_4(word);
  step_5(word);
  return word;
}

}  // namespace ft::metrics
