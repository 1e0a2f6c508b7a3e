// A search in few steps for the place where a function that grows becomes positive.
#pragma once
#include <algorithm>
#include <cstdint>

namespace ft {

// Returns the largest n, 1 <= n <= most, with f(n) < 0; 0: there is none. f must not fall. It is asked at 1,
// 4, 16, ... until it is not negative, and then where a line through the two nearest places meets zero
// (regula falsi, the Illinois variant), so that a function that is nearly a line takes few steps. Each third
// step halves.
template <class F>
std::int64_t last_below_zero(std::int64_t most, const F& f) {
  std::int64_t low = 0, high = 0;
  double below = 0, above = 0;  // f(low), f(high)
  for (;;) {
    if (low == most) return most;
    high = std::clamp<std::int64_t>(4 * low, 1, most);
    above = static_cast<double>(f(high));
    if (above >= 0) break;
    low = high, below = above;
  }
  if (low == 0) return 0;
  int moved = 0;  // the end that moved last: -1 low, 1 high
  for (int step = 1; high - low > 1; ++step) {
    const double part = step % 3 == 0 ? 0.5 : below / (below - above);
    const std::int64_t middle = std::clamp(
        low + static_cast<std::int64_t>(part * static_cast<double>(high - low)), low + 1, high - 1);
    const auto value = static_cast<double>(f(middle));
    if (value < 0) {
      low = middle, below = value;
      if (moved < 0) above /= 2;
      moved = -1;
    } else {
      high = middle, above = value;
      if (moved > 0) below /= 2;
      moved = 1;
    }
  }
  return low;
}

}  // namespace ft
