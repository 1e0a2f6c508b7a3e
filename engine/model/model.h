// The interface of a model, as the Trainer sees it.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "engine/core/batch.h"
#include "engine/core/error.h"
#include "engine/layers/embedding_adapter.h"
#include "engine/layers/kv_cache.h"
#include "engine/layers/sparse_attention.h"
#include "engine/layers/visitor.h"
#include "engine/model/logit_loss.h"
#include "engine/model/row_loss.h"
#include "engine/parallel/cut.h"
#include "engine/parallel/stage.h"
#include "engine/pass/context.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// What the last stage of a pipeline adds its losses to, and what their gradients are multiplied by.
struct StageLoss {
  Tensor sum;  // (1) f64
  float scale = 1, smoothing = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  // Every unit, Linear and Parameter, in the order of their use.
  virtual void visit(Visitor&) = 0;
  // Called once, when all adapters are attached and it is decided what to train: gives the store its units.
  virtual void add_units(ParameterStore&) = 0;

  // Leaves what this rank has of the model where ranks share each layer; when all that is trained is known
  // and before add_units. UserError (exit 2) where that is not possible.
  void cut(TensorRank t) {
    if (t.size == 1) return;
    cut_all(t);
    EachParameter others([&](Parameter& p) { p.copied = t.rank > 0 && !p.portion; });
    visit(others);
  }

  // Gives a head that shares the embedding's table one of its own, with the same first values.
  virtual void untie() {}
  // Adds to the rows that the embedding looks up. A head that shares the table does not see it.
  virtual void adapt_embedding(std::unique_ptr<EmbeddingAdapter>) {
    throw InternalError("adapt_embedding: no embedding");
  }

  // The table of the tokens that go in.
  virtual const Parameter& input_embedding() const { throw InternalError("input_embedding: none"); }
  // Trains these of its rows, also where a head shares the table, as a parameter of their own (n, C).
  virtual Parameter& train_rows(Parameter /*values*/, std::vector<std::int32_t> /*ids*/) {
    throw InternalError("train_rows: no embedding");
  }
  // The same of the head's own matrix.
  virtual Parameter& train_head_rows(Parameter /*values*/, std::vector<std::int32_t> /*ids*/) {
    throw InternalError("train_head_rows: no head");
  }
  // NEFTune (Jain et al. 2023): in training the embedded tokens get uniform noise in +-alpha / sqrt(L C), L
  // being the tokens of the batch's longest sequence. UserError where it is not known how.
  virtual void set_embedding_noise(double /*alpha*/) {
    throw InternalError("set_embedding_noise: not of this model");
  }
  // Puts a score, "score.weight" (1, C), in the place of the vocabulary's matrix: a reward model.
  virtual void score_instead() { throw InternalError("score_instead: not of this model"); }

  // Self-attention over what is given (a decoder's, or an encoder-decoder's encoder's) by blocks. Called
  // before the first pass. UserError(Exit::config) for settings that the model cannot obey.
  virtual void set_sparse_attention(const SparseAttentionConfig&) = 0;

  // Blocks, in the order of the forward pass; an encoder's come before its decoder's.
  virtual std::int64_t blocks() const = 0;
  // How much is computed again in backward instead of kept. n up to blocks(): of the first n blocks only the
  // inputs are kept; what the last blocks keep is given back before the others' backward, so it is the first
  // ones that save memory. Of several chunks, as many of each. Beyond, up to most_recompute(): all blocks,
  // and their inputs but every (n - blocks() + 1)-th. Below 0, down to least_recompute(): none, and the last
  // -n blocks keep also what is cheap to make again (Keep::whole).
  virtual void set_recompute(std::int64_t n) = 0;
  // Random-LTD: in training these blocks drop tokens, as the batch says: of the encoder, or of the decoder.
  // UserError (exit 2) where there are no such blocks, or not `all` of them.
  virtual void drop_tokens(const std::vector<std::int64_t>& /*blocks*/, bool /*encoder*/,
                           std::int64_t /*all*/) {
    throw InternalError("drop_tokens: not of this model");
  }
  // Only the first of this many blocks in a row keeps its input then.
  std::int64_t segment_of(std::int64_t n) const { return std::max<std::int64_t>(1, n - blocks() + 1); }
  std::int64_t least_recompute() const { return -blocks(); }
  // From here on the inputs that are made again take more than those that are not kept.
  std::int64_t most_recompute() const {
    return blocks() + static_cast<std::int64_t>(std::sqrt(static_cast<double>(blocks()))) - 1;
  }

  // That so many ranks are to share the rows of each micro-batch, in forward() and forward_backward(). Called
  // before the first pass. UserError(Exit::config) where they cannot.
  virtual void share_rows(std::int64_t ranks, SequenceSharing) {
    throw UserError(Exit::config, str("distributed.sequence_parallel_size is ", ranks,
                                      ": ranks cannot share the sequences of this model yet; leave it out"));
  }

  // loss (1) f64 += the sum of the losses of the batch's targets.
  virtual void forward(Ctx&, ParameterStore&, const Batch&, Tensor loss) = 0;
  // The same, and all gradients += those of scale * (that sum), label-smoothed by `smoothing`.
  virtual void forward_backward(Ctx&, ParameterStore&, const Batch&, Tensor loss, float scale,
                                float smoothing) = 0;
  // The same for an objective that weighs rows: it gets the value of every target, and all gradients += those
  // of its weights.
  virtual void forward_rows(Ctx&, ParameterStore&, const Batch&, RowLoss&) {
    throw InternalError("forward_rows: not of this model");
  }
  virtual void forward_backward_rows(Ctx&, ParameterStore&, const Batch&, RowLoss&) {
    throw InternalError("forward_backward_rows: not of this model");
  }
  // forward and forward_backward of another loss, of each target by its logits.
  virtual void forward_logits(Ctx&, ParameterStore&, const Batch&, LogitLoss&, Tensor /*loss*/) {
    throw InternalError("forward_logits: not of this model");
  }
  virtual void forward_backward_logits(Ctx&, ParameterStore&, const Batch&, LogitLoss&, Tensor /*loss*/,
                                       float /*scale*/) {
    throw InternalError("forward_backward_logits: not of this model");
  }
  // Runs the batch; what its targets' logits are made of stays in c.saved.
  virtual std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, const Batch&) {
    throw InternalError("target_logits: not of this model");
  }
  // logits (batch.target_rows, V) in the activations' dtype.
  virtual void logits(Ctx&, ParameterStore&, const Batch&, Tensor logits) = 0;
  virtual std::int64_t vocab_size() const = 0;

  // ---- a stage of a pipeline
  // Leaves its stages to this rank, one or several chunks of the model: add_units() and all passes are of
  // these, visit() still of the whole. Called after cut() and before add_units(). UserError(Exit::config)
  // where that is not possible.
  virtual void keep_stages(const std::vector<Stage>& chunks) {
    throw UserError(Exit::config, str("distributed.pipeline_parallel_size is ", chunks[0].size,
                                      ": the blocks of this model cannot be dealt out yet; leave it out"));
  }
  // The passes of a chunk over a micro-batch, between which others may come: each has a slot, and until its
  // backward pass is over a Ctx with a c.saved of its own. Returns where the states from below are to be put;
  // nothing in the first stage.
  virtual States take_in(Ctx&, Batch, int /*chunk*/, std::size_t /*slot*/) {
    throw InternalError("take_in: not a stage");
  }
  // The states for the stage above; nothing in the last one.
  virtual States forward_stage(Ctx&, ParameterStore&, std::size_t /*slot*/) {
    throw InternalError("forward_stage: not a stage");
  }
  // Below the last stage: where their gradients are to be put, of those that something here or further down
  // needs: in c.scratch, or where there are several chunks, in place of the states, which have left.
  virtual States take_gradients(Ctx&, std::size_t /*slot*/) {
    throw InternalError("take_gradients: not a stage");
  }
  // In the last stage the gradient of the loss is made. Returns those of the states from below, where
  // something further down is trained; own gradients +=.
  virtual States backward_stage(Ctx&, ParameterStore&, std::size_t /*slot*/, const StageLoss&) {
    throw InternalError("backward_stage: not a stage");
  }

  // ---- generation
  // Memory for keys and values, taken from the arena; activations have `dtype`.
  virtual KvCache make_kv_cache(Arena&, KvCacheShape, DType) const = 0;
  // Encoder-decoders: encodes sources, and keeps what the decoder reads of them. The first new token of a
  // sequence is then decoder_start_token_id. Sources without places are computed and not kept.
  virtual void encode(Ctx&, ParameterStore&, const KvCache&, const Sources&) {
    throw InternalError("encode: not an encoder-decoder");
  }
  // Longrope: the keys of a sequence that grows beyond this many tokens are to be made anew, for all of them
  // turn otherwise from there on; 0: never.
  virtual std::int64_t keys_turn_at() const { return 0; }
  // Runs the new tokens, whose keys and values are kept. logits (sequences, V), in the activations' dtype,
  // are those of the token that follows each sequence; (wanted, V), where rows are named.
  virtual void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor logits) = 0;

 protected:
  // As cut() for more ranks than one, but for what they all have.
  virtual void cut_all(TensorRank) { throw InternalError("cut: not of this model"); }
};

}  // namespace ft
