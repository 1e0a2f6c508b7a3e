// A Continuation in the form that a pass over a KvCache needs: the cache rows of the new tokens' keys and
// values, and the range of rows that each token sees.
#pragma once
#include "engine/layers/attention/kv_cache.h"

namespace ft {

struct CacheRows {
  std::vector<std::int32_t> rows, first, count;    // (new tokens) see CachedRows and KeyRanges
  std::vector<std::int32_t> source, source_count;  // the same for the sources; encoder-decoders only
  std::vector<std::int32_t> slot, past;            // (new tokens) see engine/ops/recurrent.h
  std::vector<std::int32_t> last;                  // rows whose logits are wanted; see Continuation
  std::int64_t longest = 0;                        // tokens of the longest sequence, new ones included
  bool fresh = true;                               // no slot holds earlier tokens

  CacheRows(const Continuation&, const KvCacheShape&);
};

}  // namespace ft
