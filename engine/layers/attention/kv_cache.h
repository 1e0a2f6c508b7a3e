// Keys and values of earlier tokens, so that generation computes every token once (Pope et al., "Efficiently
// scaling transformer inference", 2022). A cache has `slots` places for one sequence each. In every layer a
// sequence's tokens are in the `capacity` rows of its slot, in order, with all key heads next to each other.
// A layer with a state of constant size keeps that instead. For an encoder-decoder a cache also has `sources`
// places for one source each, whose keys and values the decoder's cross-attention reads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/core/arena.h"
#include "engine/ops/attention.h"
#include "engine/ops/device.h"

namespace ft {

struct KvCacheShape {
  std::int64_t slots = 0, capacity = 0;           // sequences at once; tokens of one
  std::int64_t sources = 0, source_capacity = 0;  // encoder-decoders: sources at once; tokens of one
};

// Sizes that decide how much memory generation takes.
struct GenerationShape {
  KvCacheShape cache;
  std::int64_t tokens = 0;         // new tokens in one pass
  std::int64_t source_tokens = 0;  // encoder-decoders: tokens of the sources that one pass encodes
  std::int64_t scored = 0;         // prompt tokens that one pass may score, at least `slots`; 0: none
  std::int64_t logit_rows() const { return std::max(cache.slots, scored); }  // rows of logits of one pass
};

struct KvCache {
  struct Layer {
    Tensor k = {},
           v = {};  // (slots * capacity, KV D); keys are rotated. Empty: on another stage of a pipeline
    Tensor inputs = {}, state = {};  // (slots, ...) of a DeltaNet, which has no keys and values
  };
  KvCacheShape shape;
  std::vector<Layer> layers;
  std::vector<Layer> memory;  // encoder-decoders: (sources * source_capacity, KV D) of every decoder layer
};

// New tokens of some sequences, one sequence after another as in a Batch. Sequence i's new tokens, rows
// [starts[i], starts[i + 1]), come after the past[i] tokens that its slot holds.
struct Continuation {
  std::vector<std::int32_t> input_ids;    // (rows)
  std::vector<std::int32_t> starts{0};    // (sequences + 1)
  std::vector<std::int32_t> slots, past;  // (sequences)
  // Encoder-decoders: place and number of tokens of each sequence's source. Several sequences may have the
  // same source.
  std::vector<std::int32_t> sources, source_lengths;  // (sequences)
  // Rows after which the next token's logits are wanted; empty: the last row of each sequence.
  std::vector<std::int32_t> wanted;
  // (sequences) Position from which adapters act that wait for their invocation; empty: they act on no row.
  std::vector<std::int32_t> acts_from;

  std::int64_t rows() const { return static_cast<std::int64_t>(input_ids.size()); }
  std::int64_t sequences() const { return static_cast<std::int64_t>(slots.size()); }
};

// Sources for the encoder, one after another: source i, rows [starts[i], starts[i + 1]), goes to place
// places[i] of the cache. Without places the pass stores nothing; it is for a rank that has to take part.
struct Sources {
  std::vector<std::int32_t> ids;        // (rows)
  std::vector<std::int32_t> starts{0};  // (sources + 1)
  std::vector<std::int32_t> places;     // (sources)
};

// Cache rows that a pass over a Continuation gives to the attention of every layer.
struct CachedRows {
  const KvCache* cache;
  Tensor rows;                  // (rows) i32: row of a layer's cache for each new token's key and value
  KeyRanges ranges;             // rows that each new token sees there, itself included, without a window
  bool fresh;                   // no earlier tokens: attention need not read the cache
  Tensor slot = {}, past = {};  // (rows) i32, see engine/ops/recurrent.h; only for models with such layers
};

// Copies the first `tokens` tokens of one slot to another. A state is copied completely.
void copy_slot(Ops&, const KvCache&, std::int32_t from, std::int32_t to, std::int64_t tokens);

// Takes memory for the keys and values of so many tokens.
inline KvCache::Layer take_keys(Arena& arena, std::int64_t tokens, std::int64_t key_columns, DType dtype) {
  return {.k = arena.take({tokens, key_columns}, dtype), .v = arena.take({tokens, key_columns}, dtype)};
}

inline void require_cache_size(const KvCacheShape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  require(shape.slots * shape.capacity < kMost && shape.sources * shape.source_capacity < kMost,
          "a cache of more than 2^31 tokens");
}

// Memory for `layers` layers of `key_columns` = KV D columns each.
inline KvCache take_kv_cache(Arena& arena, KvCacheShape shape, std::size_t layers, std::int64_t key_columns,
                             DType dtype) {
  require_cache_size(shape);
  KvCache cache{shape, {}, {}};
  const auto take = [&](std::int64_t rows) { return take_keys(arena, rows, key_columns, dtype); };
  for (std::size_t i = 0; i < layers; ++i) {
    cache.layers.push_back(take(shape.slots * shape.capacity));
    if (shape.sources > 0) cache.memory.push_back(take(shape.sources * shape.source_capacity));
  }
  return cache;
}

}  // namespace ft
