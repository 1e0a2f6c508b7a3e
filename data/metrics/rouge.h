// ROUGE (Lin, "ROUGE: a package for automatic evaluation of summaries", 2004) as rouge-score computes it,
// without stemming: F = 2 P R / (P + R) of the words that two texts have in common, averaged over the
// segments.
#pragma once
#include <span>
#include <string>

namespace ft::metrics {

// 0 to 1: words, pairs of words, the longest common subsequence.
struct Rouge {
  double rouge1 = 0, rouge2 = 0, rougeL = 0;
};

// hypotheses[i] belongs to references[i].
Rouge mean_rouge(std::span<const std::string> hypotheses, std::span<const std::string> references);

}  // namespace ft::metrics
