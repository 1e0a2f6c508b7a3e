// ROUGE (Lin, "ROUGE: a package for automatic evaluation of summaries", 2004) as rouge-score computes it:
// F = 2 P R / (P + R) of the words that two texts have in common, averaged over the segments.
#pragma once
#include <span>
#include <string>

namespace ft::metrics {

// Scores from 0 to 1, of words, pairs of words, and the longest common subsequence. rougeLsum compares each
// line of the reference with all lines of the hypothesis.
struct Rouge {
  double rouge1 = 0, rouge2 = 0, rougeL = 0, rougeLsum = 0;
};

// Returns the mean over the pairs hypotheses[i], references[i]. use_stemmer: compares the stems of words.
Rouge mean_rouge(std::span<const std::string> hypotheses, std::span<const std::string> references,
                 bool use_stemmer = false);

}  // namespace ft::metrics
