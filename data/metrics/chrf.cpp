#include "data/metrics/chrf.h"

#include <array>

#include "data/metrics/ngrams.h"
#include "engine/core/require.h"

namespace ft::metrics {

double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  require(hypotheses.size() == references.size(), "chrf: as many hypotheses as references");
  std::array<NgramCount, 6> counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const Symbols h = characters(hypotheses[i]), r = characters(references[i]);
    for (std::size_t n = 0; n < counts.size(); ++n) {
      NgramCount count = count_ngrams(h, r, n + 1);
      if (count.reference == 0) count.hypothesis = 0;  // as in sacreBLEU: no match is possible
      counts[n] += count;
    }
  }
  constexpr double kFactor = 4;  // beta^2
  double precision = 0, recall = 0;
  int orders = 0;
  for (const NgramCount& c : counts) {
    if (c.hypothesis == 0 || c.reference == 0) continue;
    precision += static_cast<double>(c.matched) / static_cast<double>(c.hypothesis);
    recall += static_cast<double>(c.matched) / static_cast<double>(c.reference);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  return 100 * (1 + kFactor) * precision * recall / (kFactor * precision + recall);
}

}  // namespace ft::metrics
