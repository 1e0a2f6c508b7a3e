// The contrastive loss of sentence-transformers' MultipleNegativesRankingLoss (InfoNCE): each anchor has to
// find its positive among all documents of a batch, by cosine.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

// Vectors of `width` columns, one after another.
struct Vectors {
  std::vector<double> values;
  std::size_t width = 1;

  std::size_t size() const { return values.size() / width; }
  std::span<const double> operator[](std::size_t i) const {
    return std::span(values).subspan(i * width, width);
  }
};

struct Contrasted {
  double loss = 0;                         // sum over the anchors
  std::vector<double> anchors, documents;  // its derivatives, in the order of the vectors' values
  std::vector<std::int64_t> ranks;         // by anchor: documents that are nearer than its positive
};

// loss = sum_i -log softmax_j(scale cos(a_i, d_j))[positive_i], summed over `dims`, the numbers of first
// columns that vectors are cut to. positives: for each anchor the index of its document. The ranks use the
// largest of `dims`.
Contrasted contrast(const Vectors& anchors, const Vectors& documents, std::span<const std::size_t> positives,
                    double scale, std::span<const std::int64_t> dims);

}  // namespace ft
