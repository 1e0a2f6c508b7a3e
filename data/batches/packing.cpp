#include "data/batches/packing.h"

#include <algorithm>
#include <map>

#include "engine/core/require.h"

namespace ft {

std::vector<Stretch> cut_samples(std::span<const std::int64_t> lengths, std::int64_t room) {
  std::vector<Stretch> stretches;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (std::int64_t begin = 0; begin < lengths[i]; begin += room)
      stretches.push_back({static_cast<std::int64_t>(i), begin, std::min(room, lengths[i] - begin)});
  return stretches;
}

std::vector<std::vector<Stretch>> wrap(std::span<const std::int64_t> lengths,
                                       std::span<const std::int64_t> order, std::int64_t room) {
  std::vector<std::vector<Stretch>> packs;
  std::int64_t left = 0;  // room in the last pack
  for (const std::int64_t i : order) {
    const std::int64_t length = lengths[static_cast<std::size_t>(i)];
    for (std::int64_t begin = 0; begin < length;) {
      if (left == 0) {
        packs.emplace_back();
        left = room;
      }
      const std::int64_t count = std::min(left, length - begin);
      packs.back().push_back({i, begin, count});
      begin += count;
      left -= count;
    }
  }
  return packs;
}

std::vector<std::vector<std::int64_t>> pack_best_fit(std::span<const std::int64_t> lengths,
                                                     std::span<const std::int64_t> order, std::int64_t room) {
  const auto length = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  std::vector<std::int64_t> longest_first(order.begin(), order.end());
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](std::int64_t a, std::int64_t b) { return length(a) > length(b); });
  std::vector<std::vector<std::int64_t>> packs;
  std::map<std::int64_t, std::vector<std::size_t>> by_room;  // free tokens -> packs
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
