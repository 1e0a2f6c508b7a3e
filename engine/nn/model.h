// The interface of a model, as the Trainer sees it.
#pragma once
#include "engine/core/batch.h"
#include "engine/dist/parameter_store.h"
#include "engine/nn/context.h"
#include "engine/nn/kv_cache.h"
#include "engine/nn/visitor.h"

namespace ft {

class Model {
 public:
  virtual ~Model() = default;

  // Every unit, Linear and Parameter, in the order of their use.
  virtual void visit(Visitor&) = 0;
  // Called once, when all adapters are attached and what is trained is decided: gives the store its units.
  virtual void add_units(ParameterStore&) = 0;

  // Gives a head that shares the embedding's table one of its own, with the same first values.
  virtual void untie() {}

  // Blocks, in the order of the forward pass; an encoder's come before its decoder's.
  virtual std::int64_t blocks() const = 0;
  // Of the first so many blocks only the inputs are kept, and each is run again before its backward. What the
  // last blocks keep is given back before then, so it is the first blocks that save memory.
  virtual void set_recompute(std::int64_t blocks) = 0;

  // loss (1) f64 += the sum of the losses of the batch's targets.
  virtual void forward(Ctx&, ParameterStore&, const Batch&, Tensor loss) = 0;
  // The same, and all gradients += those of scale * (that sum), label-smoothed by `smoothing`.
  virtual void forward_backward(Ctx&, ParameterStore&, const Batch&, Tensor loss, float scale,
                                float smoothing) = 0;
  // logits (batch.target_rows, V) in the activations' dtype.
  virtual void logits(Ctx&, ParameterStore&, const Batch&, Tensor logits) = 0;
  virtual std::int64_t vocab_size() const = 0;

  // ---- generation
  // Memory for keys and values, taken from the arena; activations have `dtype`.
  virtual KvCache make_kv_cache(Arena&, KvCacheShape, DType) const = 0;
  // Encoder-decoders: encodes sources, and keeps what the decoder reads of them. Its first new token of a
  // sequence is then decoder_start_token_id. Of sources without places nothing is kept.
  virtual void encode(Ctx&, ParameterStore&, const KvCache&, const Sources&) {
    throw InternalError("encode: not an encoder-decoder");
  }
  // Runs the new tokens, whose keys and values are kept. logits (sequences, V), in the activations' dtype,
  // are those of the token that follows each sequence.
  virtual void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor logits) = 0;
};

}  // namespace ft
