// Generation by a model: passes over new tokens, with a cache of earlier tokens' keys and values.
#pragma once
#include "engine/layers/attention/kv_cache.h"
#include "engine/pass/context.h"

namespace ft {

class CachedDecoding {
 public:
  virtual ~CachedDecoding() = default;

  // Takes memory for keys and values from the arena. DType: the activations' type.
  virtual KvCache make_kv_cache(Arena&, KvCacheShape, DType) const = 0;
  // Longrope: a sequence's keys have to be computed anew when it grows beyond this many tokens, because all
  // of them are rotated by other frequencies from then on. 0: never.
  virtual std::int64_t keys_turn_at() const { return 0; }
  // True if a slot can go back to its first tokens, as one of keys and values can. A state cannot: it is of
  // all tokens that the slot has seen.
  virtual bool forgets() const { return true; }
  // Runs the new tokens and keeps their keys and values. logits (sequences, V), in the activations' dtype,
  // predict the token that follows each sequence; (wanted, V) if Continuation::wanted names rows.
  virtual void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor logits) = 0;
};

// The encoder of an encoder-decoder.
class SourceEncoder {
 public:
  virtual ~SourceEncoder() = default;

  // Encodes sources, and keeps the keys and values that the decoder reads. The first new token of a sequence
  // is then decoder_start_token_id. Computes sources without places too, and keeps nothing of them.
  virtual void encode(Ctx&, ParameterStore&, const KvCache&, const Sources&) = 0;
};

}  // namespace ft
