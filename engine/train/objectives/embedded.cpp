#include "engine/train/objectives/embedded.h"

namespace ft {
namespace {

// Calls f(sequence, target, weight in the mean) for each target.
void each_target(const Batch& b, const auto& f) {
  const std::vector<std::int32_t>& first = b.compared.first_target;
  for (std::size_t s = 0; s + 1 < first.size(); ++s)
    for (std::int32_t t = first[s]; t < first[s + 1]; ++t)
      f(s, static_cast<std::size_t>(t), 1 / static_cast<double>(first[s + 1] - first[s]));
}

}  // namespace

Vectors embedded(const Batch& b, std::span<const float> states) {
  Vectors all;
  if (states.empty()) return all;
  all.width = states.size() / b.targets.size();
  all.values.resize((b.compared.first_target.size() - 1) * all.width);
  each_target(b, [&](std::size_t s, std::size_t t, double part) {
    for (std::size_t k = 0; k < all.width; ++k)
      all.values[s * all.width + k] += part * static_cast<double>(states[t * all.width + k]);
  });
  return all;
}

void embedded_back(const Batch& b, std::span<const double> by_vectors, std::size_t width,
                   std::span<double> by_states) {
  if (by_states.empty()) return;
  each_target(b, [&](std::size_t s, std::size_t t, double part) {
    for (std::size_t k = 0; k < width; ++k) by_states[t * width + k] = part * by_vectors[s * width + k];
  });
}

}  // namespace ft
