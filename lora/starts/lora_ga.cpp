#include "lora/starts/lora_ga.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ft::lora {
namespace {

// The numbers of the singular vectors that A and B take.
struct Taken {
  std::vector<std::int64_t> a, b;
};

Taken vectors_taken(std::int64_t r, LoraGaDirection direction, Random random) {
  Taken t{std::vector<std::int64_t>(static_cast<std::size_t>(r)),
          std::vector<std::int64_t>(static_cast<std::size_t>(r))};
  std::vector<std::int64_t> all(static_cast<std::size_t>(2 * r));
  std::iota(all.begin(), all.end(), 0);
  if (direction == LoraGaDirection::random)
    for (std::size_t i = 0; i < t.a.size(); ++i)  // Fisher and Yates' shuffle
      std::swap(all[i], all[i + random.at(i)[0] % (all.size() - i)]);
  for (std::size_t k = 0; k < t.a.size(); ++k) {
    const auto i = static_cast<std::int64_t>(k);
    switch (direction) {
      case LoraGaDirection::alternating:
        t.a[k] = 2 * i + 1;
        t.b[k] = 2 * i;
        break;
      case LoraGaDirection::b_first:
        t.a[k] = r + i;
        t.b[k] = i;
        break;
      case LoraGaDirection::a_first:
        t.a[k] = i;
        t.b[k] = r + i;
        break;
      case LoraGaDirection::random:
        t.a[k] = t.b[k] = all[k];
    }
  }
  return t;
}

}  // namespace

Factors begin_from_gradient(const GradientOf& of, const LoraGaConfig& config, Random random) {
  const std::int64_t r = of.rank, out = of.gradient.rows, in = of.gradient.cols;
  const Singular s = largest_singular(of.gradient, 2 * r);
  const Taken t = vectors_taken(r, config.direction, random);
  const auto value = [&](std::int64_t k) { return s.values[static_cast<std::size_t>(k)]; };
  double a_by = 1, b_by = 1;
  switch (config.scale) {
    case LoraGaScale::stable:
      b_by =
          std::pow(static_cast<double>(of.rows), 0.25) / std::sqrt(static_cast<double>(config.stable_gamma));
      break;
    case LoraGaScale::weight_svd:
      if (value(t.b[0]) > 0) b_by = of.largest_singular() / value(t.b[0]);
      break;
    case LoraGaScale::gd_scale:
      a_by = b_by = 1 / of.scale;
      break;
    case LoraGaScale::unit:
      break;
  }
  Factors f{std::vector<float>(static_cast<std::size_t>(r * in)),
            std::vector<float>(static_cast<std::size_t>(out * r))};
  for (std::int64_t k = 0; k < r; ++k) {
    const std::int64_t a = t.a[static_cast<std::size_t>(k)], b = t.b[static_cast<std::size_t>(k)];
    for (std::int64_t i = 0; i < in; ++i)
      f.a[static_cast<std::size_t>(k * in + i)] = static_cast<float>(a_by * s.right[a][i]);
    for (std::int64_t o = 0; o < out; ++o)
      f.b[static_cast<std::size_t>(o * r + k)] = static_cast<float>(b_by * value(b) * s.left[b][o]);
  }
  return f;
}

}  // namespace ft::lora
