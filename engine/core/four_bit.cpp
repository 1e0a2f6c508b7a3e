#include "engine/core/four_bit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ft {
namespace {

// In f32 throughout, as torch computes linspace(0.1, 1, parts + 1): from both ends towards the middle,
// with fused multiply-adds.
NestedMap make_nested_map() {
  NestedMap map{};
  std::size_t n = 0;
  map[n++] = 0;
  map[n++] = 1;
  constexpr float kPowers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  for (int i = 0; i < 7; ++i) {
    const int parts = 1 << i;
    const float step = (1.0f - 0.1f) / static_cast<float>(parts);
    const auto border = [&](int k) {
      return 2 * k < parts ? std::fma(step, static_cast<float>(k), 0.1f)
                           : std::fma(-step, static_cast<float>(parts - k), 1.0f);
    };
    for (int k = 0; k < parts; ++k) {
      const float v = kPowers[i] * ((border(k) + border(k + 1)) / 2);
      map[n++] = v;
      map[n++] = -v;
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

}  // namespace

const NestedMap& nested_map() {
  static const NestedMap map = make_nested_map();
  return map;
}

namespace {

std::uint8_t nearest_nested_code(float x) {
  const NestedMap& map = nested_map();
  const auto above = std::lower_bound(map.begin(), map.end(), x);  // the first that is not below x
  if (above == map.begin()) return 0;
  if (above == map.end()) return 255;
  const auto below = above - 1;
  const bool up = x > (*below + *above) * 0.5f;
  return static_cast<std::uint8_t>((up ? above : below) - map.begin());
}

// The codes of all the multiples.
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
