// T5 in generation: sources are encoded once; new tokens of several sequences follow those in the cache.
#include <algorithm>

#include "engine/nn/cache_rows.h"
#include "models/t5/model.h"

namespace ft::t5 {
namespace {

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
  return take_kv_cache(arena, shape, decoder_.blocks.blocks.size(),
                       decoder_.blocks.blocks[0].self.layer.k.out, dtype);
}

void T5::encode(Ctx& context, ParameterStore& store, const KvCache& cache, const Sources& sources) {
  Ctx c = context;
  c.train = false;
  Scope all(c.saved);
  const std::vector<std::int32_t> rows = memory_rows(sources, cache.shape);
  const std::int64_t longest = longest_of(sources.starts);
  Side side;
  side.starts = sources.starts;
  side.bias = encoder_.bias.forward(c, store, longest, false);
  side.blocks = sparse_.upload(c, longest);
  Tensor x = embed(c, store, vocabulary_.embedding.upload(c, sources.ids), encoder_);
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
  Tensor x = embed(c, store, vocabulary_.embedding.upload(c, next.input_ids), decoder_);
  x = decoder_.blocks.evaluate(c, store, x, side);
  const Tensor last = ft::upload(c, where.last);
  vocabulary_.logits(c, store, logits, x, last);
}

}  // namespace ft::t5
