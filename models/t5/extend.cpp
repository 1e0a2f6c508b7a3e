// T5's generation: sources are encoded once; new tokens of several sequences follow those in the cache.
#include <algorithm>

#include "engine/layers/attention/cache_rows.h"
#include "models/t5/model.h"

namespace ft::t5 {
namespace {

// Returns the cache row of each source token's keys and values.
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
  const auto own = static_cast<std::size_t>(decoder_.blocks.size());
  KvCache cache = take_kv_cache(arena, shape, own, decoder_.layers[0].self.layer.k.out, dtype);
  for (auto* layers : {&cache.layers, &cache.memory}) {  // layers of other stages stay empty
    layers->insert(layers->begin(), static_cast<std::size_t>(decoder_.blocks.stage.begin), {});
    layers->resize(decoder_.layers.size());
  }
  return cache;
}

void T5::encode(Ctx& context, ParameterStore& store, const KvCache& cache, const Sources& sources) {
  Ctx c = context;
  c.train = false;
  Scope all(c.saved);
  const std::vector<std::int32_t> rows = memory_rows(sources, cache.shape);
  const std::int64_t longest = longest_of(sources.starts);
  Flight f;
  f.in.source_ids = vocabulary_.embedding.upload(c, sources.ids);
  f.in.encoder.starts = sources.starts;
  if (!encoder_.empty()) {
    f.in.encoder.bias = encoder_.bias.take(c, longest);
    f.in.encoder.blocks = sparse_.upload(c, longest);
  }
  receive(c, f);
  run_encoder(c, store, f, false);
  send(c, f);
  const Tensor to = ft::upload(c, rows);
  auto number = static_cast<std::size_t>(decoder_.blocks.stage.begin);
  for (const int unit : decoder_.blocks.units) {
    Use use(store, unit, false);
    if (!rows.empty())
      decoder_.layers[number].cross->layer.keep(c, f.source_states, cache.memory[number], to);
    ++number;
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
  Flight f;
  f.in.ids = vocabulary_.embedding.upload(c, next.input_ids);
  f.in.decoder.extending = &extending;
  if (!decoder_.empty()) f.in.decoder.bias = decoder_.bias.take(c, where.longest);
  receive(c, f);
  run_decoder(c, store, f, false);
  send(c, f);
  const Tensor last = ft::upload(c, where.last);
  vocabulary_.logits(c, store, logits, f.states, last);
}

}  // namespace ft::t5
