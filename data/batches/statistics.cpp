#include "data/batches/statistics.h"

#include <algorithm>
#include <numeric>

#include "data/batches/packing.h"

namespace ft {
namespace {

using Bucket = LengthStatistics::Bucket;

std::vector<Bucket> histogram_of(const std::vector<std::int64_t>& sorted) {
  std::vector<Bucket> buckets;
  for (std::int64_t most = 16; !sorted.empty(); most *= 2) {
    const auto end = std::upper_bound(sorted.begin(), sorted.end(), most);
    const auto before = std::upper_bound(sorted.begin(), sorted.end(), buckets.empty() ? -1 : most / 2);
    buckets.push_back({most, end - before});
    if (end == sorted.end()) break;
  }
  return buckets;
}

LengthStatistics statistics_of(std::vector<std::int64_t> lengths) {
  LengthStatistics out;
  out.tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  std::sort(lengths.begin(), lengths.end());
  if (!lengths.empty()) {
    out.shortest = lengths.front();
    out.median = lengths[lengths.size() / 2];
    out.p95 = lengths[lengths.size() * 95 / 100];
    out.longest = lengths.back();
  }
  out.histogram = histogram_of(lengths);
  return out;
}

// Returns the lengths of the samples, or of one side of them.
std::vector<std::int64_t> lengths_of(const Dataset& data,
                                     std::span<const std::int32_t> SampleStore::View::*side) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < data.size(); ++i)
    lengths.push_back(static_cast<std::int64_t>((data[i].*side).size()));
  return lengths;
}

PairStatistics::Side side_of(std::vector<std::int64_t> lengths, std::span<const std::int64_t> limits,
                             Truncation truncation) {
  PairStatistics::Side side;
  for (const std::int64_t most : limits) {
    PairStatistics::Limit l{.length = most};
    for (const std::int64_t length : lengths) {
      if (length <= most) continue;
      ++l.longer;
      l.lost += truncation == Truncation::drop ? length : length - most;
    }
    side.limits.push_back(l);
  }
  side.lengths = statistics_of(std::move(lengths));
  return side;
}

DataStatistics::Limit limit_of(const Dataset& data, std::int64_t length, Truncation truncation) {
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
    const std::int64_t kept = truncation == Truncation::drop ? 0 : length;
    out.lost += size - kept;
    const auto part =
        labels.subspan(static_cast<std::size_t>(truncation == Truncation::keep_end ? size - kept : 0),
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
                               Truncation truncation) {
  DataStatistics out{.samples = data.size(), .targets = data.targets()};
  out.lengths = statistics_of(lengths_of(data, &SampleStore::View::input_ids));
  for (const std::int64_t length : limits) out.limits.push_back(limit_of(data, length, truncation));
  return out;
}

PairStatistics pair_statistics(const Dataset& data, std::span<const std::int64_t> source_limits,
                               std::span<const std::int64_t> target_limits, Truncation truncation) {
  return {.samples = data.size(),
          .source = side_of(lengths_of(data, &SampleStore::View::input_ids), source_limits, truncation),
          .target = side_of(lengths_of(data, &SampleStore::View::labels), target_limits, truncation)};
}

PairCost cost_of(const Dataset& data, std::int64_t max_source, std::int64_t max_target,
                 Truncation truncation) {
  PairCost cost;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const auto source = static_cast<std::int64_t>(data[i].input_ids.size()),
               target = static_cast<std::int64_t>(data[i].labels.size());
    if (source <= max_source && target <= max_target) continue;
    ++cost.longer;
    const std::int64_t kept =
        truncation == Truncation::drop ? 0 : std::min(source, max_source) + std::min(target, max_target);
    cost.lost += source + target - kept;
  }
  return cost;
}

}  // namespace ft
