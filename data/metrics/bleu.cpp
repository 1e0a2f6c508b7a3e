#include "data/metrics/bleu.h"

#include <cmath>

#include "data/metrics/ngrams.h"
#include "engine/core/require.h"

namespace ft::metrics {
namespace {

constexpr std::size_t kOrders = 4;
using Counts = std::array<NgramCount, kOrders>;

Bleu score(const Counts& counts) {
  Bleu b{.hypothesis_tokens = counts[0].hypothesis, .reference_tokens = counts[0].reference};
  const auto c = static_cast<double>(b.hypothesis_tokens), r = static_cast<double>(b.reference_tokens);
  if (c < r) b.brevity_penalty = c > 0 ? std::exp(1 - r / c) : 0;
  if (counts[0].matched == 0) return b;  // no order has matches
  double unmatched = 1, logarithms = 0;
  for (std::size_t n = 0; n < kOrders; ++n) {
    if (counts[n].hypothesis == 0) return b;  // hypotheses are too short for this order: 0, as in sacreBLEU
    if (counts[n].matched == 0) unmatched *= 2;
    const double matched = counts[n].matched > 0 ? static_cast<double>(counts[n].matched) : 1 / unmatched;
    b.precisions[n] = 100 * matched / static_cast<double>(counts[n].hypothesis);
    logarithms += std::log(b.precisions[n]);
  }
  b.score = b.brevity_penalty * std::exp(logarithms / kOrders);
  return b;
}

}  // namespace

Bleu corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  require(hypotheses.size() == references.size(), "bleu: as many hypotheses as references");
  Counts counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const std::string hypothesis = tokenize_13a(hypotheses[i]), reference = tokenize_13a(references[i]);
    Vocabulary words;
    const Symbols h = words.numbers(split(hypothesis)), r = words.numbers(split(reference));
    for (std::size_t n = 0; n < kOrders; ++n) counts[n] += count_ngrams(h, r, n + 1);
  }
  return score(counts);
}

}  // namespace ft::metrics
