#include "data/packing.h"

#include <algorithm>
#include <map>

#include "engine/core/error.h"

namespace ft {

std::vector<std::vector<std::int64_t>> pack_best_fit(std::span<const std::int64_t> lengths,
                                                     std::span<const std::int64_t> order, std::int64_t room) {
  const auto length = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  std::vector<std::int64_t> longest_first(order.begin(), order.end());
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](std::int64_t a, std::int64_t b) { return length(a) > length(b); });
  std::vector<std::vector<std::int64_t>> packs;
  std::map<std::int64_t, std::vector<std::size_t>> by_room;  // tokens still free -> packs
  for (const std::int64_t i : longest_first) {
    require(length(i) <= room, "a sample is longer than a pack");
    const auto fit = by_room.lower_bound(length(i));
    std::size_t pack = packs.size();
    std::int64_t left = room;
    if (fit == by_room.end()) {
      packs.emplace_back();
    } else {
      pack = fit->second.back();
      left = fit->first;
      fit->second.pop_back();
      if (fit->second.empty()) by_room.erase(fit);
    }
    packs[pack].push_back(i);
    by_room[left - length(i)].push_back(pack);
  }
  return packs;
}

}  // namespace ft
