// Rules that leave rows out of data: equal rows and rows of a wrong length by their definition, near
// duplicates by a slow search through all kept rows.
#include "data/filter/filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft::filtered {
namespace {

using test::error_of;

const std::string kName = "t.jsonl";

std::vector<RowFate> fates(RowFilter& filter, const std::vector<std::string>& rows) {
  std::vector<RowFate> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row row{rows[i], static_cast<std::int64_t>(i) + 1};
    all.push_back(filter.judge(filter.facts(row, {&kName, row.line})));
  }
  return all;
}

std::string text_row(const std::string& text) { return "{\"text\": \"" + text + "\"}"; }

TEST(DataFilter, EqualRowsHaveEqualValuesInAnyOrder) {
  RowFilter filter({.exact = true}, nullptr);
  using enum RowFate;
  EXPECT_EQ(fates(filter, {R"({"a": 1, "b": ["x", {"c": "y", "d": null}]})",
                           R"({"b": ["x", {"d": null, "c": "y"}],  "a": 1})", R"({"a": 2, "b": ["x"]})",
                           R"({"a": "1", "b": ["x"]})", R"({"a": 2, "b": ["x"]})"}),
            (std::vector{kept, equal, kept, kept, equal}));
  EXPECT_EQ(filter.count(kept), 3);
  EXPECT_EQ(filter.count(equal), 2);
}

TEST(DataFilter, OnlyTheNamedFieldsCount) {
  RowFilter filter({.fields = {"b"}, .exact = true}, nullptr);
  using enum RowFate;
  EXPECT_EQ(fates(filter, {R"({"a": 1, "b": "x"})", R"({"a": 2, "b": "x"})", R"({"a": 2, "b": "y"})"}),
            (std::vector{kept, equal, kept}));
  EXPECT_EQ(error_of(Exit::input,
                     [&] {
                       fates(filter, {R"({"b": "z"})", R"({"a": 1})"});
                     }),
            "t.jsonl:2: no \"b\" (--fields)");
  EXPECT_EQ(error_of(Exit::input, [&] { fates(filter, {R"({"b": null})"}); }),
            "t.jsonl:1: no \"b\" (--fields)");
}

// A random set of rows is filtered to its first occurrences.
TEST(DataFilter, ExactAgainstASet) {
  std::mt19937 random(3);
  std::vector<std::string> rows;
  for (int i = 0; i < 3000; ++i) rows.push_back(text_row(std::to_string(random() % 1200)));
  RowFilter filter({.exact = true}, nullptr);
  const std::vector<RowFate> got = fates(filter, rows);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(got[i] == RowFate::kept, seen.insert(rows[i]).second) << i;
}

TEST(DataFilter, LengthsInTokensOfTheText) {
  const auto tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
  const std::vector<std::string> texts{"Ada", "Ada has", "Ada has Ada has Ada has", ""};
  std::vector<std::string> rows;
  for (const std::string& text : texts) rows.push_back(text_row(text));
  const auto few = static_cast<std::int64_t>(tokenizer->encode(texts[1]).size());
  RowFilter filter({.min_tokens = few, .max_tokens = few, .exact = true}, tokenizer.get());
  using enum RowFate;
  EXPECT_EQ(fates(filter, rows), (std::vector{too_short, kept, too_long, too_short}));
  // Texts of several fields are joined by line feeds.
  RowFilter joined({.max_tokens = std::ssize(tokenizer->encode("Ada\nhas"))}, tokenizer.get());
  EXPECT_EQ(fates(joined, {R"({"a": "Ada", "n": 7, "b": ["has"]})", R"({"a": "Ada", "b": "has", "c": "x"})"}),
            (std::vector{kept, too_long}));
}

// The rule written down a second time, with sets of n-grams as texts.
std::set<std::string> ngrams(const std::string& text, std::size_t n) {
  std::vector<std::string> words(1);
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80)
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!words.back().empty())
      words.emplace_back();
  if (words.back().empty()) words.pop_back();
  std::set<std::string> all;
  n = std::min(n, words.size());
  for (std::size_t i = 0; n > 0 && i + n <= words.size(); ++i) {
    std::string gram = words[i];
    for (std::size_t k = 1; k < n; ++k) gram += " " + words[i + k];
    all.insert(gram);
  }
  return all;
}

std::uint32_t permuted(const std::string& gram, std::uint64_t i) {
  std::uint64_t z = 14695981039346656037ull;
  for (const char c : gram) z = (z ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  z += (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

Signature slow_signature(const std::string& text, const NearRule& rule) {
  const std::set<std::string> grams = ngrams(text, static_cast<std::size_t>(rule.ngram));
  Signature all;
  for (std::int64_t i = 0; i < rule.permutations && !grams.empty(); ++i) {
    std::uint32_t least = UINT32_MAX;
    for (const std::string& gram : grams)
      least = std::min(least, permuted(gram, static_cast<std::uint64_t>(i)));
    all.push_back(least);
  }
  return all;
}

double jaccard(const std::string& a, const std::string& b, std::int64_t n) {
  const auto x = ngrams(a, static_cast<std::size_t>(n)), y = ngrams(b, static_cast<std::size_t>(n));
  std::vector<std::string> both;
  std::ranges::set_intersection(x, y, std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(x.size() + y.size() - both.size());
}

// Texts of random words; many are an earlier text with some words changed.
std::vector<std::string> random_texts(int count, std::mt19937& random) {
  std::vector<std::vector<std::string>> texts;
  for (int i = 0; i < count; ++i) {
    std::vector<std::string> words;
    if (i > 0 && random() % 2 == 0) {
      words = texts[random() % texts.size()];
      for (auto changes = random() % 8; changes > 0 && !words.empty(); --changes)
        words[random() % words.size()] = "w" + std::to_string(random() % 500);
    } else {
      for (auto n = random() % 60; n > 0; --n) words.push_back("w" + std::to_string(random() % 500));
    }
    texts.push_back(words);
  }
  std::vector<std::string> all;
  for (const auto& words : texts) {
    std::string text;
    for (const std::string& word : words) text += (random() % 9 == 0 ? "W" : "w") + word.substr(1) + ", ";
    all.push_back(text);
  }
  return all;
}

TEST(NearDuplicates, SignaturesByTheFormula) {
  NearRule rule;
  for (const std::string text : {"", " .,!", "One", "one two", "ONE two three four five six, seven",
                                 "na\xC3\xAFve caf\xC3\xA9 one-two_three 4"})
    for (const std::int64_t n : {1, 2, 5}) {
      rule.ngram = n;
      EXPECT_EQ(signature_of(text, rule), slow_signature(text, rule)) << text << " " << n;
    }
  EXPECT_EQ(signature_of("One,two", rule), signature_of("one Two.", rule));
}

TEST(NearDuplicates, AgainstASearchThroughAllKeptTexts) {
  std::mt19937 random(17);
  for (const NearRule rule :
       {NearRule{}, NearRule{.ngram = 2, .permutations = 32, .bands = 8, .threshold = 0.5},
        NearRule{.ngram = 3, .permutations = 20, .bands = 20, .threshold = 0.9},
        NearRule{.ngram = 1, .permutations = 12, .bands = 1, .threshold = 0}}) {
    NearDuplicates near(rule);
    std::vector<Signature> kept;
    const auto rows = static_cast<std::size_t>(rule.permutations / rule.bands);
    int duplicates = 0;
    for (const std::string& text : random_texts(400, random)) {
      const Signature s = slow_signature(text, rule);
      bool want = false;
      for (const Signature& other : kept) {
        std::int64_t equal = 0;
        bool band = false;
        for (std::size_t i = 0; i < other.size() && !s.empty(); ++i) equal += other[i] == s[i];
        for (std::size_t b = 0; b + rows <= s.size(); b += rows)
          band |= std::equal(s.begin() + b, s.begin() + b + rows, other.begin() + b);
        want |= band && static_cast<double>(equal) >= rule.threshold * static_cast<double>(rule.permutations);
      }
      if (!want && !s.empty()) kept.push_back(s);
      EXPECT_EQ(near.is_duplicate(signature_of(text, rule)), want) << text;
      duplicates += want;
    }
    EXPECT_GT(duplicates, 5);
    EXPECT_LT(duplicates, 395);
    EXPECT_GT(near.bytes(), std::ssize(kept) * rule.permutations * 4);
  }
}

// The share of equal permutations estimates the Jaccard similarity: unbiased, with a known deviation.
TEST(NearDuplicates, SignaturesEstimateSimilarity) {
  std::mt19937 random(23);
  const NearRule rule{.ngram = 2, .permutations = 1024, .bands = 1};
  const std::vector<std::string> texts = random_texts(120, random);
  double sum = 0;
  int pairs = 0;
  for (std::size_t a = 0; a < texts.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const Signature x = signature_of(texts[a], rule), y = signature_of(texts[b], rule);
      if (x.empty() || y.empty()) continue;
      const double want = jaccard(texts[a], texts[b], rule.ngram);
      if (want == 0) continue;
      double equal = 0;
      for (std::size_t i = 0; i < x.size(); ++i) equal += x[i] == y[i];
      EXPECT_NEAR(equal / 1024, want, 6 * std::sqrt(want * (1 - want) / 1024) + 1e-12);
      sum += equal / 1024 - want;
      ++pairs;
    }
  ASSERT_GT(pairs, 50);
  EXPECT_NEAR(sum / pairs, 0, 0.01);
}

TEST(DataFilter, RulesHoldInOrder) {
  const auto tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
  RowFilter filter({.max_tokens = 40, .exact = true, .near = NearRule{.ngram = 1, .threshold = 0.5}},
                   tokenizer.get());
  using enum RowFate;
  const std::string row = text_row("Ada has a b c");
  EXPECT_EQ(fates(filter, {row, row, text_row("ada HAS a b c!"), text_row("h"),
                           text_row("Ada has a b c " + std::string(100, 'x'))}),
            (std::vector{kept, equal, near, kept, too_long}));
}

TEST(DataFilter, MemoryIsBounded) {
  RowFilter filter({.exact = true, .most_bytes = 4800}, nullptr);
  std::vector<std::string> rows;
  for (int i = 0; i < 101; ++i) rows.push_back(text_row(std::to_string(i)));
  const std::string text = error_of(Exit::memory, [&] { fates(filter, rows); });
  EXPECT_TRUE(text.starts_with("--memory-gib: 101 rows are kept so far")) << text;
}

TEST(DataFilter, RowsThatAreNoObjectsAreRefused) {
  RowFilter filter({.exact = true}, nullptr);
  EXPECT_TRUE(error_of(Exit::input, [&] { fates(filter, {"[1]"}); }).starts_with("t.jsonl:1: "));
  EXPECT_TRUE(error_of(Exit::input, [&] { fates(filter, {"{\"a\": }"}); }).starts_with("t.jsonl:1: "));
}

}  // namespace
}  // namespace ft::filtered
