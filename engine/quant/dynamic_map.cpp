#include "engine/quant/dynamic_map.h"

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

// Computes in f32 throughout, as torch computes linspace(0.1, 1, parts + 1): from both ends towards the
// middle, with fused multiply-adds.
DynamicMap make_map(bool has_signs) {
  DynamicMap map{};
  std::size_t n = 0;
  map[n++] = 0;
  map[n++] = 1;
  constexpr float kPowers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  for (int i = 0; i < 7; ++i) {
    const int parts = has_signs ? 1 << i : 2 << i;
    const float step = (1.0f - 0.1f) / static_cast<float>(parts);
    const auto border = [&](int k) {
      return 2 * k < parts ? std::fma(step, static_cast<float>(k), 0.1f)
                           : std::fma(-step, static_cast<float>(parts - k), 1.0f);
    };
    for (int k = 0; k < parts; ++k) {
      const float v = kPowers[i] * ((border(k) + border(k + 1)) / 2);
      map[n++] = v;
      if (has_signs) map[n++] = -v;
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

DynamicBounds make_bounds(const DynamicMap& map) {
  DynamicBounds bounds{};
  for (int i = 0; i < 255; ++i) bounds[static_cast<std::size_t>(i)] = dynamic_bound(map.data(), i);
  return bounds;
}

}  // namespace

const DynamicMap& dynamic_map(bool has_signs) {
  static const DynamicMap maps[] = {make_map(false), make_map(true)};
  return maps[has_signs];
}

const DynamicBounds& dynamic_bounds(bool has_signs) {
  static const DynamicBounds bounds[] = {make_bounds(dynamic_map(false)), make_bounds(dynamic_map(true))};
  return bounds[has_signs];
}

}  // namespace ft
