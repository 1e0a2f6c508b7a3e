// Counts runs of n words or characters that two texts have in common.
#pragma once
#include "data/metrics/words.h"

namespace ft::metrics {

struct NgramCount {
  std::int64_t hypothesis = 0, reference = 0;  // runs in each text
  std::int64_t matched = 0;  // runs in both; a repeated run counts as often as it occurs in both

  NgramCount& operator+=(const NgramCount& other) {
    hypothesis += other.hypothesis;
    reference += other.reference;
    matched += other.matched;
    return *this;
  }
};

NgramCount count_ngrams(const Symbols& hypothesis, const Symbols& reference, std::size_t n);

}  // namespace ft::metrics
