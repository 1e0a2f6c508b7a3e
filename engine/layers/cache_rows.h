// A Continuation in the form that a pass over a KvCache needs: the rows of the new tokens' keys and values,
// and how far each token sees.
#pragma once
#include "engine/layers/kv_cache.h"

namespace ft {

struct CacheRows {
  std::vector<std::int32_t> rows, first, count;    // (new tokens) see CachedRows and KeyRanges
  std::vector<std::int32_t> source, source_count;  // the same of the sources; encoder-decoders only
  std::vector<std::int32_t> last;                  // rows that logits are wanted of; see Continuation
  std::int64_t longest = 0;                        // tokens of a sequence, new ones included
  bool fresh = true;                               // nothing came before

  CacheRows(const Continuation&, const KvCacheShape&);
};

}  // namespace ft
