#include "data/statistics.h"

#include <algorithm>
#include <numeric>

#include "data/packing.h"

namespace ft {
namespace {

std::vector<DataStatistics::Bucket> histogram_of(const std::vector<std::int64_t>& sorted) {
  std::vector<DataStatistics::Bucket> buckets;
  for (std::int64_t most = 16; !sorted.empty(); most *= 2) {
    const auto end = std::upper_bound(sorted.begin(), sorted.end(), most);
    const auto before = std::upper_bound(sorted.begin(), sorted.end(), buckets.empty() ? -1 : most / 2);
    buckets.push_back({most, end - before});
    if (end == sorted.end()) break;
  }
  return buckets;
}

DataStatistics::Limit limit_of(const Dataset& data, std::int64_t length, const std::string& truncation) {
  DataStatistics::Limit out{.length = length};
  std::vector<std::int64_t> left;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const auto labels = data[i].labels;
    const auto size = static_cast<std::int64_t>(labels.size());
    if (size <= length) {
      left.push_back(size);
      continue;
    }
    ++out.longer;
    const std::int64_t kept = truncation == "drop" ? 0 : length;
    out.lost += size - kept;
    const auto part = labels.subspan(static_cast<std::size_t>(truncation == "keep_end" ? size - kept : 0),
                                     static_cast<std::size_t>(kept));
    out.untrained += count_targets(labels) > 0 && count_targets(part) == 0;
    if (kept > 0) left.push_back(kept);
  }
  std::vector<std::int64_t> order(left.size());
  std::iota(order.begin(), order.end(), 0);
  out.packs = static_cast<std::int64_t>(pack_best_fit(left, order, length).size());
  const auto tokens = std::accumulate(left.begin(), left.end(), std::int64_t{0});
  if (out.packs > 0) out.fill = static_cast<double>(tokens) / static_cast<double>(out.packs * length);
  return out;
}

}  // namespace

DataStatistics data_statistics(const Dataset& data, std::span<const std::int64_t> limits,
                               const std::string& truncation) {
  DataStatistics out{.samples = data.size(), .tokens = data.tokens(), .targets = data.targets()};
  std::vector<std::int64_t> sorted;
  for (std::int64_t i = 0; i < data.size(); ++i)
    sorted.push_back(static_cast<std::int64_t>(data[i].input_ids.size()));
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty()) {
    out.shortest = sorted.front();
    out.median = sorted[sorted.size() / 2];
    out.p95 = sorted[sorted.size() * 95 / 100];
    out.longest = sorted.back();
  }
  out.histogram = histogram_of(sorted);
  for (const std::int64_t length : limits) out.limits.push_back(limit_of(data, length, truncation));
  return out;
}

}  // namespace ft
