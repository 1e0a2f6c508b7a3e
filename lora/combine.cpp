#include "lora/combine.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/require.h"

namespace ft::lora {
namespace {

// Keeps the values with the largest magnitudes; of equal ones the first.
void prune_small(std::vector<float>& values, double density) {
  const auto kept = static_cast<std::ptrdiff_t>(density * static_cast<double>(values.size()));
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::nth_element(order.begin(), order.begin() + kept, order.end(), [&](std::size_t a, std::size_t b) {
    const float x = std::abs(values[a]), y = std::abs(values[b]);
    return x != y ? x > y : a < b;
  });
  for (auto at = order.begin() + kept; at != order.end(); ++at) values[*at] = 0;
}

void prune_random(std::vector<float>& values, double density, Random random) {
  const auto keep = static_cast<float>(density);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = to_uniform(random.at(i / 4)[i % 4]) <= keep ? values[i] / keep : 0;
}

int sign_of(float v) { return (v > 0) - (v < 0); }

// Combines element i of all tensors.
float together(const std::vector<std::vector<float>>& tensors, const std::vector<double>& weights,
               std::size_t i, Election election) {
  double majority = 0, sum = 0, count = 0;
  for (const auto& t : tensors)
    majority += election == Election::total ? t[i] : static_cast<float>(sign_of(t[i]));
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const float v = tensors[k][i];
    if (election != Election::none && sign_of(v) != (majority >= 0 ? 1 : -1)) continue;
    sum += weights[k] * v;
    count += 1;
  }
  return static_cast<float>(election == Election::none ? sum : sum / std::max(count, 1.0));
}

}  // namespace

std::vector<float> combine(std::vector<std::vector<float>> tensors, const std::vector<double>& weights,
                           const CombineRule& rule, Random random) {
  require(!tensors.empty() && tensors.size() == weights.size(), "a weight for each tensor");
  for (std::size_t k = 0; k < tensors.size() && rule.density < 1; ++k) {
    if (rule.pruning == Pruning::small) prune_small(tensors[k], rule.density);
    if (rule.pruning == Pruning::random) prune_random(tensors[k], rule.density, random.with(k));
  }
  std::vector<float> all(tensors[0].size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = together(tensors, weights, i, rule.election);
  return all;
}

}  // namespace ft::lora
