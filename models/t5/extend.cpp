// T5 in generation: sources are encoded once; new tokens of several sequences follow those whose keys and
// values are kept.
#include <algorithm>

#include "models/t5/model.h"

namespace ft::t5 {
namespace {

// Where the new tokens' keys go, and how far each of them sees among its own and in its source.
struct CacheRows {
  std::vector<std::int32_t> rows, first, count, last, source, source_count;
  std::int64_t longest = 0;

  CacheRows(const Continuation& next, const KvCacheShape& shape) {
    const std::size_t n = next.slots.size();
    require(next.starts.size() == n + 1 && next.past.size() == n && next.sources.size() == n &&
                next.source_lengths.size() == n,
            "extend: starts, slots, past and sources of different lengths");
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t from = next.starts[i], to = next.starts[i + 1], past = next.past[i];
      require(from < to && past >= 0 && past + (to - from) <= shape.capacity, "extend: a slot is too small");
      require(next.slots[i] >= 0 && next.slots[i] < shape.slots, "extend: a slot that is not there");
      require(next.sources[i] >= 0 && next.sources[i] < shape.sources && next.source_lengths[i] >= 1 &&
                  next.source_lengths[i] <= shape.source_capacity,
              "extend: a source that is not there");
      const auto slot = static_cast<std::int32_t>(next.slots[i] * shape.capacity);
      for (std::int32_t t = 0; t < to - from; ++t) {
        rows.push_back(slot + past + t);
        first.push_back(slot);
        count.push_back(past + t + 1);
        source.push_back(static_cast<std::int32_t>(next.sources[i] * shape.source_capacity));
        source_count.push_back(next.source_lengths[i]);
      }
      last.push_back(to - 1);
      longest = std::max<std::int64_t>(longest, past + to - from);
    }
  }
};

// Where the cache keeps what is made of each token of the sources.
std::vector<std::int32_t> memory_rows(const Sources& sources, const KvCacheShape& shape) {
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < sources.places.size(); ++i) {
    const std::int32_t length = sources.starts[i + 1] - sources.starts[i];
    require(length >= 1 && length <= shape.source_capacity && sources.places[i] >= 0 &&
                sources.places[i] < shape.sources,
            "encode: a place that is not there, or too small");
    const auto place = static_cast<std::int32_t>(sources.places[i] * shape.source_capacity);
    for (std::int32_t t = 0; t < length; ++t) rows.push_back(place + t);
  }
  return rows;
}

}  // namespace

KvCache T5::make_kv_cache(Arena& arena, KvCacheShape shape, DType dtype) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  require(shape.slots * shape.capacity < kMost && shape.sources * shape.source_capacity < kMost,
          "a cache of more than 2^31 tokens");
  return take_kv_cache(arena, shape, decoder_.blocks.blocks.size(), config_.inner(), dtype);
}

void T5::encode(Ctx& context, ParameterStore& store, const KvCache& cache, const Sources& sources) {
  Ctx c = context;
  c.train = false;
  Scope all(c.saved);
  const std::vector<std::int32_t> rows = memory_rows(sources, cache.shape);
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < sources.starts.size(); ++i)
    longest = std::max<std::int64_t>(longest, sources.starts[i] - sources.starts[i - 1]);
  Side side;
  side.starts = sources.starts;
  side.bias = encoder_.bias.forward(c, store, longest, false);
  Tensor x = embed(c, store, ft::upload(c, sources.ids), encoder_);
  const Tensor states = finish(c, store, encoder_.blocks.evaluate(c, store, x, side)).states;
  const Tensor to = ft::upload(c, rows);
  for (std::size_t i = 0; i < decoder_.blocks.blocks.size(); ++i) {
    Use use(store, decoder_.blocks.units[i], false);
    if (!rows.empty()) decoder_.blocks.blocks[i].cross->layer.keep(c, states, cache.memory[i], to);
  }
}

void T5::extend(Ctx& context, ParameterStore& store, const KvCache& cache, const Continuation& next,
                Tensor logits) {
  Ctx c = context;
  c.train = false;
  Scope all(c.saved);
  const CacheRows where(next, cache.shape);
  const Extending extending{&cache,
                            ft::upload(c, where.rows),
                            {ft::upload(c, where.first), ft::upload(c, where.count)},
                            {ft::upload(c, where.source), ft::upload(c, where.source_count)}};
  Side side;
  side.extending = &extending;
  side.bias = decoder_.bias.forward(c, store, where.longest, false);
  Tensor x = embed(c, store, ft::upload(c, next.input_ids), decoder_);
  x = decoder_.blocks.evaluate(c, store, x, side);
  const Tensor last = ft::upload(c, where.last);
  HeadUse use(*this, store, false);
  head_.logits(c, logits, x, last);
}

}  // namespace ft::t5
