#include "data/metrics/rouge.h"

#include <algorithm>

#include "data/metrics/ngrams.h"
#include "engine/core/error.h"

namespace ft::metrics {
namespace {

// of matched out of the hypothesis' and the reference's: 2 P R / (P + R)
double f_measure(const NgramCount& c) {
  return c.matched > 0 ? 2 * static_cast<double>(c.matched) / static_cast<double>(c.hypothesis + c.reference)
                       : 0;
}

NgramCount longest_common_subsequence(const Symbols& h, const Symbols& r) {
  std::vector<std::int64_t> row(r.size() + 1);  // of h so far and the first j of r
  for (const Symbol word : h) {
    std::int64_t diagonal = 0;
    for (std::size_t j = 1; j < row.size(); ++j) {
      const std::int64_t above = row[j];
      row[j] = word == r[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return {static_cast<std::int64_t>(h.size()), static_cast<std::int64_t>(r.size()), row.back()};
}

}  // namespace

Rouge mean_rouge(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  require(hypotheses.size() == references.size(), "rouge: as many hypotheses as references");
  Rouge sum;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    Vocabulary words;
    const Symbols h = words.numbers(tokenize_rouge(hypotheses[i]));
    const Symbols r = words.numbers(tokenize_rouge(references[i]));
    sum.rouge1 += f_measure(count_ngrams(h, r, 1));
    sum.rouge2 += f_measure(count_ngrams(h, r, 2));
    sum.rougeL += f_measure(longest_common_subsequence(h, r));
  }
  const auto n = static_cast<double>(std::max<std::size_t>(1, hypotheses.size()));
  return {sum.rouge1 / n, sum.rouge2 / n, sum.rougeL / n};
}

}  // namespace ft::metrics
