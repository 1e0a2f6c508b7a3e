#include "data/metrics/ngrams.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace ft::metrics {
namespace {

using Ngram = std::span<const Symbol>;

bool before(Ngram a, Ngram b) { return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end()); }

std::vector<Ngram> sorted_ngrams(const Symbols& text, std::size_t n) {
  std::vector<Ngram> out;
  for (std::size_t i = 0; i + n <= text.size(); ++i) out.emplace_back(text.data() + i, n);
  std::sort(out.begin(), out.end(), before);
  return out;
}

}  // namespace

NgramCount count_ngrams(const Symbols& hypothesis, const Symbols& reference, std::size_t n) {
  const std::vector<Ngram> h = sorted_ngrams(hypothesis, n), r = sorted_ngrams(reference, n);
  std::vector<Ngram> both;  // for an n-gram in both, the smaller number of copies
  std::set_intersection(h.begin(), h.end(), r.begin(), r.end(), std::back_inserter(both), before);
  const auto size = [](const std::vector<Ngram>& v) { return static_cast<std::int64_t>(v.size()); };
  return {size(h), size(r), size(both)};
}

}  // namespace ft::metrics
