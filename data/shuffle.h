// Random orders that depend only on a key, not on the platform's random library.
#pragma once
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/core/random.h"

namespace ft {

// Returns 0 ... n-1 in random order (Fisher-Yates). The modulus' bias is below n / 2^64.
inline std::vector<std::int64_t> permutation(std::int64_t n, Random random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::uint64_t i = order.size(); i > 1; --i) {
    const Philox4 r = random.at(i);
    std::swap(order[i - 1], order[(std::uint64_t{r[0]} << 32 | r[1]) % i]);
  }
  return order;
}

}  // namespace ft
