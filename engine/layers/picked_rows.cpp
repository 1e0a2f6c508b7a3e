#include "engine/layers/picked_rows.h"

namespace ft {

// Selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S): takes a row with probability wanted / left.
PickedRows pick_rows(std::span<const std::int32_t> starts, std::span<const std::int32_t> kept,
                     Random random) {
  require(starts.size() == kept.size(), "picked rows: kept is not of these sequences");
  PickedRows picked{.starts = {kept.begin(), kept.end()}};
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    std::int64_t wanted = kept[s + 1] - kept[s];
    require(0 <= wanted && wanted <= starts[s + 1] - starts[s], "picked rows: more than there are");
    for (std::int32_t row = starts[s]; wanted > 0; ++row) {
      const auto index = static_cast<std::uint64_t>(row);
      const std::uint64_t left = static_cast<std::uint64_t>(starts[s + 1] - row);
      const std::uint64_t place = random.at(index / 4)[index % 4] * left >> 32;  // in [0, left)
      if (place >= static_cast<std::uint64_t>(wanted)) continue;
      picked.rows.push_back(row);
      picked.positions.push_back(row - starts[s]);
      --wanted;
    }
  }
  return picked;
}

}  // namespace ft
