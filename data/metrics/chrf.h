// Corpus chrF2 (Popovic, "chrF: character n-gram F-score for automatic MT evaluation", 2015) with one
// reference for each segment, as sacreBLEU computes it: runs of 1 to 6 characters without white space,
// precision P and recall R averaged over the orders that both sides have.
//   chrF = 100 (1 + 4) P R / (4 P + R)
#pragma once
#include <span>
#include <string>

namespace ft::metrics {

// Returns the score of hypotheses[i] against references[i], 0 to 100.
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::string> references);

}  // namespace ft::metrics
