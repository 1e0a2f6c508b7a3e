// Generation by a decoder-only model: new tokens of several sequences follow those in the cache.
#include <algorithm>

#include "engine/layers/attention/cache_rows.h"
#include "engine/model/causal_lm.h"

namespace ft {

KvCache CausalLm::make_kv_cache(Arena& arena, KvCacheShape shape, DType dtype) const {
  KvCache cache = take_kv_cache(arena, shape, static_cast<std::size_t>(blocks()), key_columns_, dtype);
  std::vector<KvCache::Layer> all(blocks_.size());
  auto own = cache.layers.begin();
  for (const BlockStack<DecoderBlock>& chunk : chunks_) {
    std::copy_n(own, chunk.size(), all.begin() + chunk.stage.begin);
    own += chunk.size();
  }
  cache.layers = std::move(all);
  return cache;
}

void CausalLm::extend(Ctx& c, ParameterStore& store, const KvCache& cache, const Continuation& next,
                      Tensor y) {
  Scope all(c.saved);
  const CacheRows where(next, cache.shape);
  CachedRows cached{&cache,
                    ft::upload(c, where.rows),
                    {ft::upload(c, where.first), ft::upload(c, where.count)},
                    where.fresh};
  const Tensor ids = vocabulary_.embedding.upload(c, next.input_ids);
  const BlockMask blocks = sparse_.upload(c, where.longest, where.fresh);
  sparse_.restrict(c, cached.ranges, where.count);
  Positions side = positions_.upload(c, next, cached);
  side.blocks = blocks;
  const Tensor last = ft::upload(c, where.last);
  const Tensor x = hidden(c, store, ids, side);
  vocabulary_.logits(c, store, y, x, last);
}

}  // namespace ft
