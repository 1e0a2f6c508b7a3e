#include "engine/core/dynamic_table.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace ft {
namespace {

DynamicTable make_table(bool has_signs) {
  DynamicTable t{};
  const DynamicBounds& bounds = dynamic_bounds(has_signs);
  std::copy(bounds.begin(), bounds.end(), t.bounds.begin());
  t.bounds.back() = std::numeric_limits<float>::infinity();
  for (std::uint32_t upper = 0; upper < t.lowest.size(); ++upper) {
    const bool negative = upper >= 0x8000;
    const float least = std::bit_cast<float>(upper << 16 | (negative ? 0xffffu : 0u));
    t.lowest[upper] = static_cast<std::uint8_t>(dynamic_code(bounds.data(), least));
  }
  return t;
}

}  // namespace

const DynamicTable& dynamic_table(bool has_signs) {
  static const DynamicTable tables[] = {make_table(false), make_table(true)};
  return tables[has_signs];
}

}  // namespace ft
