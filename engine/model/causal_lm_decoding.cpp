// Generation by a decoder-only model: new tokens of several sequences follow those in the cache.
#include <algorithm>

#include "engine/layers/attention/cache_rows.h"
#include "engine/model/causal_lm.h"
#include "engine/model/invocation.h"

namespace ft {

KvCache CausalLm::make_kv_cache(Arena& arena, KvCacheShape shape, DType dtype) const {
  require_cache_size(shape);
  KvCache cache{shape, std::vector<KvCache::Layer>(blocks_.size()), {}};
  for (const BlockStack<DecoderBlock>& chunk : chunks_)
    for (std::int64_t i = 0; i < chunk.size(); ++i) {
      const auto at = static_cast<std::size_t>(chunk.stage.begin + i);
      cache.layers[at] = blocks_[at].take_cache(arena, shape, dtype);
    }
  return cache;
}

void CausalLm::extend(Ctx& c, ParameterStore& store, const KvCache& cache, const Continuation& next,
                      Tensor y) {
  Scope all(c.saved);
  const Invocation active(c, next, invocation_);
  const CacheRows where(next, cache.shape);
  CachedRows cached{&cache,
                    ft::upload(c, where.rows),
                    {ft::upload(c, where.first), ft::upload(c, where.count)},
                    where.fresh};
  if (recurrent()) {
    cached.slot = ft::upload(c, where.slot);
    cached.past = ft::upload(c, where.past);
  }
  const Tensor ids = upload_ids(c, next.input_ids);
  const BlockMask blocks = sparse_.upload(c, where.longest, where.fresh);
  sparse_.restrict(c, cached.ranges, where.count);
  Positions side = positions_.upload(c, next, cached);
  side.blocks = blocks;
  if (recurrent()) side.first = ft::upload(c, first_rows(next.starts));
  const Tensor last = ft::upload(c, where.last);
  const Tensor x = hidden(c, store, ids, side);
  vocabulary_.logits(c, store, y, x, last);
}

}  // namespace ft
