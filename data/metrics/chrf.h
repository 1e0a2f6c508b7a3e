// Corpus chrF2 (Popovic, "chrF: character n-gram F-score for automatic MT evaluation", 2015) with one
// reference a segment, as sacreBLEU computes it: runs of 1 to 6 characters without white space, precision P
// and recall R averaged over the orders that both sides have.
//   chrF = 100 (1 + 4) P R / (4 P + R)
#pragma once
#include <span>
#include <string>

namespace ft::metrics {

// 0 to 100. hypotheses[i] belongs to references[i].
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::string> references);

}  // namespace ft::metrics
