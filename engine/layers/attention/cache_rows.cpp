#include "engine/layers/attention/cache_rows.h"

#include <algorithm>

#include "engine/ops/ops.h"

namespace ft {

CacheRows::CacheRows(const Continuation& next, const KvCacheShape& shape) {
  const std::size_t n = next.slots.size(), sources = shape.sources > 0 ? n : 0;
  require(next.starts.size() == n + 1 && next.past.size() == n && next.sources.size() == sources &&
              next.source_lengths.size() == sources,
          "extend: starts, slots, past and sources of different lengths");
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t from = next.starts[i], to = next.starts[i + 1], before = next.past[i];
    require(from < to && before >= 0 && before + (to - from) <= shape.capacity,
            "extend: a slot is too small");
    require(next.slots[i] >= 0 && next.slots[i] < shape.slots, "extend: a slot that is not there");
    const auto begin = static_cast<std::int32_t>(next.slots[i] * shape.capacity);
    for (std::int32_t t = 0; t < to - from; ++t) {
      rows.push_back(begin + before + t);
      first.push_back(begin);
      count.push_back(before + t + 1);
      slot.push_back(next.slots[i]);
      past.push_back(before);
    }
    last.push_back(to - 1);
    longest = std::max<std::int64_t>(longest, before + to - from);
    fresh = fresh && before == 0;
    if (sources == 0) continue;
    require(next.sources[i] >= 0 && next.sources[i] < shape.sources && next.source_lengths[i] >= 1 &&
                next.source_lengths[i] <= shape.source_capacity,
            "extend: a source that is not there");
    const auto source_slot = static_cast<std::int32_t>(next.sources[i] * shape.source_capacity);
    source.insert(source.end(), static_cast<std::size_t>(to - from), source_slot);
    source_count.insert(source_count.end(), static_cast<std::size_t>(to - from), next.source_lengths[i]);
  }
  if (!next.wanted.empty()) last = next.wanted;
}

void copy_slot(Ops& ops, const KvCache& cache, std::int32_t from, std::int32_t to, std::int64_t tokens) {
  const std::int64_t source = from * cache.shape.capacity, target = to * cache.shape.capacity;
  for (const KvCache::Layer& layer : cache.layers) {
    for (const Tensor& t : {layer.k, layer.v})
      if (t) ops.copy(t.slice(target, target + tokens), t.slice(source, source + tokens));
    for (const Tensor& t : {layer.inputs, layer.state})
      if (t) ops.copy(t.slice(to, to + 1), t.slice(from, from + 1));
  }
}

}  // namespace ft
