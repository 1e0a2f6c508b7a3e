#include "data/metrics/rouge.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "data/metrics/lcs.h"
#include "data/metrics/ngrams.h"
#include "engine/core/require.h"

namespace ft::metrics {
namespace {

// Returns 2 P R / (P + R) of `matched` among the hypothesis' and the reference's runs.
double f_measure(const NgramCount& c) {
  return c.matched > 0 ? 2 * static_cast<double>(c.matched) / static_cast<double>(c.hypothesis + c.reference)
                       : 0;
}

std::int64_t size(const Symbols& words) { return static_cast<std::int64_t>(words.size()); }

// Returns the words of each non-empty line.
std::vector<Symbols> lines_of(std::string_view text, Vocabulary& words, bool use_stemmer) {
  std::vector<Symbols> lines;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = text.find('\n', begin);
    const std::string_view line = text.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (!line.empty()) lines.push_back(words.numbers(tokenize_rouge(line, use_stemmer)));
  }
  return lines;
}

// Counts each word at most as often as it occurs in both texts.
NgramCount union_of_lines(const std::vector<Symbols>& h, const std::vector<Symbols>& r) {
  NgramCount count;
  std::map<Symbol, std::int64_t> left_h, left_r;
  const auto take = [](const std::vector<Symbols>& lines, std::int64_t& all,
                       std::map<Symbol, std::int64_t>& left) {
    for (const Symbols& line : lines) {
      all += size(line);
      for (const Symbol word : line) ++left[word];
    }
  };
  take(h, count.hypothesis, left_h);
  take(r, count.reference, left_r);
  for (const Symbols& line : r) {
    std::set<std::size_t> common;
    for (const Symbols& other : h)
      for (const std::size_t at : lcs_rows(line, other)) common.insert(at);
    for (const std::size_t at : common)
      if (std::int64_t& a = left_h[line[at]], &b = left_r[line[at]]; a > 0 && b > 0) {
        --a;
        --b;
        ++count.matched;
      }
  }
  return count;
}

}  // namespace

Rouge mean_rouge(std::span<const std::string> hypotheses, std::span<const std::string> references,
                 bool use_stemmer) {
  require(hypotheses.size() == references.size(), "rouge: as many hypotheses as references");
  Rouge sum;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    Vocabulary words;
    const Symbols h = words.numbers(tokenize_rouge(hypotheses[i], use_stemmer));
    const Symbols r = words.numbers(tokenize_rouge(references[i], use_stemmer));
    sum.rouge1 += f_measure(count_ngrams(h, r, 1));
    sum.rouge2 += f_measure(count_ngrams(h, r, 2));
    const double of_all = f_measure({size(h), size(r), lcs_length(h, r)});
    sum.rougeL += of_all;
    const std::vector<Symbols> h_lines = lines_of(hypotheses[i], words, use_stemmer),
                               r_lines = lines_of(references[i], words, use_stemmer);
    const bool single = h_lines.size() <= 1 && r_lines.size() <= 1;
    sum.rougeLsum += single ? of_all : f_measure(union_of_lines(h_lines, r_lines));
  }
  const auto n = static_cast<double>(std::max<std::size_t>(1, hypotheses.size()));
  return {sum.rouge1 / n, sum.rouge2 / n, sum.rougeL / n, sum.rougeLsum / n};
}

}  // namespace ft::metrics
