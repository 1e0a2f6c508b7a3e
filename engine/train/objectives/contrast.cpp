#include "engine/train/objectives/contrast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/files/parallel.h"

namespace ft {
namespace {

// Adds up in eight parts, so that the compiler can vectorise it.
double dot(std::span<const double> a, std::span<const double> b) {
  std::array<double, 8> parts{};
  const std::size_t whole = a.size() / parts.size() * parts.size();
  for (std::size_t i = 0; i < whole; i += parts.size())
    for (std::size_t k = 0; k < parts.size(); ++k) parts[k] += a[i + k] * b[i + k];
  double sum = 0;
  for (std::size_t i = whole; i < a.size(); ++i) sum += a[i] * b[i];
  for (const double part : parts) sum += part;
  return sum;
}

void add(std::span<double> to, double factor, std::span<const double> v) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * v[i];
}

// Directions of vectors cut to their first columns. Lengths count as at least 1e-12, as in PyTorch.
struct Directions {
  Vectors unit;
  std::vector<double> lengths;

  Directions(const Vectors& all, std::size_t columns) : unit{{}, columns} {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto v = all[i].first(columns);
      lengths.push_back(std::max(std::sqrt(dot(v, v)), 1e-12));
      for (const double x : v) unit.values.push_back(x / lengths.back());
    }
  }
  // Adds the derivative by the vectors, from the derivative by their directions.
  void back(const std::vector<double>& slopes, std::vector<double>& to, std::size_t width) const {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto d = std::span(slopes).subspan(i * unit.width, unit.width);
      const double along = dot(d, unit[i]);
      for (std::size_t k = 0; k < unit.width; ++k)
        to[i * width + k] += (d[k] - along * unit[i][k]) / lengths[i];
    }
  }
};

// Calls f(begin, end) for blocks of n rows, on several threads if there is enough to do.
void each_block(std::size_t n, std::size_t work, const auto& f) {
  constexpr std::size_t kBlock = 8, kWorthThreads = std::size_t{1} << 20;
  if (work < kWorthThreads) return f(std::size_t{0}, n);
  in_parallel(static_cast<std::int64_t>((n + kBlock - 1) / kBlock), [&](std::int64_t block) {
    const std::size_t begin = static_cast<std::size_t>(block) * kBlock;
    f(begin, std::min(n, begin + kBlock));
  });
}

// The loss of one anchor among all documents. logits: replaced by the loss' derivative by each cosine.
double loss_of(std::span<double> logits, std::size_t positive, double scale) {
  const double most = *std::max_element(logits.begin(), logits.end()), right = logits[positive];
  double all = 0;
  for (const double x : logits) all += std::exp(x - most);
  for (std::size_t j = 0; j < logits.size(); ++j)
    logits[j] = scale * (std::exp(logits[j] - most) / all - (j == positive ? 1 : 0));
  return std::log(all) + most - right;
}

// Adds the loss of vectors cut to `columns`. Every sum is over one index in ascending order, so that the
// number of threads changes no bit.
void add_cut(Contrasted& sum, const Vectors& anchors, const Vectors& documents,
             std::span<const std::size_t> positives, double scale, std::size_t columns, bool ranks) {
  const Directions a(anchors, columns), d(documents, columns);
  const std::size_t rows = anchors.size(), width = documents.size(), work = rows * width * columns;
  std::vector<double> by_a(a.unit.values.size()), by_d(d.unit.values.size()), losses(rows);
  std::vector<double> slopes(rows * width);
  std::vector<std::int64_t> nearer(rows);
  const auto row = [&](std::size_t i) { return std::span(slopes).subspan(i * width, width); };
  each_block(rows, work, [&](std::size_t begin, std::size_t end) {
    for (std::size_t j = 0; j < width; ++j)
      for (std::size_t i = begin; i < end; ++i) row(i)[j] = scale * dot(a.unit[i], d.unit[j]);
    for (std::size_t i = begin; i < end; ++i) {
      const double right = row(i)[positives[i]];
      nearer[i] = std::ranges::count_if(row(i), [&](double x) { return x > right; });
      losses[i] = loss_of(row(i), positives[i], scale);
    }
    for (std::size_t j = 0; j < width; ++j)
      for (std::size_t i = begin; i < end; ++i)
        add(std::span(by_a).subspan(i * columns, columns), row(i)[j], d.unit[j]);
  });
  each_block(width, work, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = begin; j < end; ++j)
        add(std::span(by_d).subspan(j * columns, columns), row(i)[j], a.unit[i]);
  });
  for (const double loss : losses) sum.loss += loss;
  if (ranks) sum.ranks = std::move(nearer);
  a.back(by_a, sum.anchors, anchors.width);
  d.back(by_d, sum.documents, documents.width);
}

}  // namespace

Contrasted contrast(const Vectors& anchors, const Vectors& documents, std::span<const std::size_t> positives,
                    double scale, std::span<const std::int64_t> dims) {
  Contrasted sum;
  sum.anchors.resize(anchors.values.size());
  sum.documents.resize(documents.values.size());
  for (const std::int64_t columns : dims)
    add_cut(sum, anchors, documents, positives, scale, static_cast<std::size_t>(columns),
            columns == *std::max_element(dims.begin(), dims.end()));
  return sum;
}

}  // namespace ft
