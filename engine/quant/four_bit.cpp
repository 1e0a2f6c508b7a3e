#include "engine/quant/four_bit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ft {
namespace {

std::uint8_t nearest_nested_code(float x) {
  const NestedMap& map = nested_map();
  const auto above = std::lower_bound(map.begin(), map.end(), x);  // the first value not below x
  if (above == map.begin()) return 0;
  if (above == map.end()) return 255;
  const auto below = above - 1;
  const bool up = x > (*below + *above) * 0.5f;
  return static_cast<std::uint8_t>((up ? above : below) - map.begin());
}

// The codes of all multiples of 2 / 65535 above -1, in order.
std::vector<std::uint8_t> make_nested_codes() {
  std::vector<std::uint8_t> codes(65536);
  for (std::size_t k = 0; k < codes.size(); ++k)
    codes[k] = nearest_nested_code(static_cast<float>(k) / 32767.5f - 1);
  return codes;
}

}  // namespace

std::uint8_t nested_code(float x) {
  static const std::vector<std::uint8_t> codes = make_nested_codes();
  const float k = std::floor((x + 1) * 32767.5f + 0.5f);  // 0 for NaN
  return codes[k > 0 ? static_cast<std::size_t>(std::min(k, 65535.0f)) : 0];
}

}  // namespace ft
