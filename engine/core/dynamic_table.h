// Codes of the dynamic map by a table, for CPUs, whose caches hold it: six times as fast as the search.
#pragma once
#include <array>
#include <cstdint>

#include "engine/core/dynamic_map.h"

namespace ft {

// By the upper half of a number's bits the lowest code of such numbers; at most one bound is among them.
struct DynamicTable {
  std::array<std::uint8_t, 65536> lowest;
  std::array<float, 256> bounds;  // as DynamicBounds; above the last code there is none

  // dynamic_code(x).
  [[gnu::always_inline]] inline int code(float x) const {
    const int low = lowest.data()[__builtin_bit_cast(std::uint32_t, x) >> 16];
    return low + (bounds.data()[low] < x);
  }
};
const DynamicTable& dynamic_table(bool has_signs);

}  // namespace ft
