// The interface of a model as the Trainer uses it.
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

// The sum that the last stage of a pipeline adds its losses to, and the factor of their gradients.
struct StageLoss {
  Tensor sum;  // (1) f64
  float scale = 1, smoothing = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  // Visits every unit, Linear and Parameter, in the order of their use.
  virtual void visit(Visitor&) = 0;
  // Gives the store its units. Called once, when all adapters are attached and the trained parameters are
  // chosen.
  virtual void add_units(ParameterStore&) = 0;

  // Keeps only this rank's part of each layer if ranks share layers. Called when the trained parameters are
  // chosen and before add_units. Throws UserError (config) if the model cannot be split so.
  void cut(TensorRank t) {
    if (t.size == 1) return;
    cut_all(t);
    EachParameter others([&](Parameter& p) { p.copied = t.rank > 0 && !p.portion; });
    visit(others);
  }

  // Gives a head that shares the embedding's table its own matrix, which begins as a copy of the table.
  virtual void untie() {}
  // Adds to the rows that the embedding looks up. A head that shares the table is not affected.
  virtual void adapt_embedding(std::unique_ptr<EmbeddingAdapter>) {
    throw InternalError("adapt_embedding: no embedding");
  }

  // The table of the input tokens.
  virtual const Parameter& input_embedding() const { throw InternalError("input_embedding: none"); }
  // Trains these rows of the input table, and of a head that shares it, as a separate parameter (n, C).
  virtual Parameter& train_rows(Parameter /*values*/, std::vector<std::int32_t> /*ids*/) {
    throw InternalError("train_rows: no embedding");
  }
  // Trains these rows of the head's own matrix as a separate parameter.
  virtual Parameter& train_head_rows(Parameter /*values*/, std::vector<std::int32_t> /*ids*/) {
    throw InternalError("train_head_rows: no head");
  }
  // NEFTune (Jain et al. 2023): in training, embedded tokens get uniform noise in +-alpha / sqrt(L C), where
  // L is the number of tokens of the batch's longest sequence. Throws UserError (config) if the model does
  // not support it.
  virtual void set_embedding_noise(double /*alpha*/) {
    throw InternalError("set_embedding_noise: not of this model");
  }
  // Makes a reward model: replaces the vocabulary's matrix by a score, "score.weight" (1, C).
  virtual void score_instead() { throw InternalError("score_instead: not of this model"); }

  // Makes self-attention sparse by blocks: a decoder's, or the encoder's of an encoder-decoder. Called before
  // the first pass. Throws UserError (config) for settings that the model does not support.
  virtual void set_sparse_attention(const SparseAttentionConfig&) = 0;

  // Number of blocks, counted in the order of the forward pass; an encoder's come before its decoder's.
  virtual std::int64_t blocks() const = 0;
  // Sets how much backward recomputes instead of reading tensors that forward kept.
  // 0 <= n <= blocks(): the first n blocks keep only their inputs. The first blocks save the most memory,
  // because the last blocks free theirs before the others' backward. With several chunks the n blocks are
  // spread evenly over them.
  // blocks() < n <= most_recompute(): no block keeps more than its input, and only every (n - blocks() +
  // 1)-th block keeps that.
  // least_recompute() <= n < 0: no block recomputes, and the last -n blocks also keep tensors that are cheap
  // to recompute (Keep::whole).
  virtual void set_recompute(std::int64_t n) = 0;
  // Random-LTD: in training, these blocks of the encoder or of the decoder drop tokens, as the batch asks.
  // Throws UserError (config) if one of the blocks does not exist, or if there are not `all` blocks.
  virtual void drop_tokens(const std::vector<std::int64_t>& /*blocks*/, bool /*encoder*/,
                           std::int64_t /*all*/) {
    throw InternalError("drop_tokens: not of this model");
  }
  // Blocks of a segment for set_recompute(n): only the first block of each segment keeps its input.
  std::int64_t segment_of(std::int64_t n) const { return std::max<std::int64_t>(1, n - blocks() + 1); }
  std::int64_t least_recompute() const { return -blocks(); }
  // The largest useful n: beyond it, the recomputed inputs of a segment take more memory than longer segments
  // save.
  std::int64_t most_recompute() const {
    return blocks() + static_cast<std::int64_t>(std::sqrt(static_cast<double>(blocks()))) - 1;
  }

  // Prepares forward() and forward_backward() for so many ranks that share the rows of each micro-batch.
  // Called before the first pass. Throws UserError (config) if the model does not support it.
  virtual void share_rows(std::int64_t ranks, SequenceSharing) {
    throw UserError(Exit::config, str("distributed.sequence_parallel_size is ", ranks,
                                      ": ranks cannot share the sequences of this model yet; leave it out"));
  }

  // loss (1) f64 += the sum of the losses of the batch's targets.
  virtual void forward(Ctx&, ParameterStore&, const Batch&, Tensor loss) = 0;
  // Like forward, and adds the gradients of scale * (that sum), label-smoothed by `smoothing`.
  virtual void forward_backward(Ctx&, ParameterStore&, const Batch&, Tensor loss, float scale,
                                float smoothing) = 0;
  // Passes for an objective that weighs rows: the RowLoss gets the value of every target. The second adds to
  // all gradients, with the weights that the RowLoss sets.
  virtual void forward_rows(Ctx&, ParameterStore&, const Batch&, RowLoss&) {
    throw InternalError("forward_rows: not of this model");
  }
  virtual void forward_backward_rows(Ctx&, ParameterStore&, const Batch&, RowLoss&) {
    throw InternalError("forward_backward_rows: not of this model");
  }
  // Like forward and forward_backward, for a loss of each target that is a function of its logits.
  virtual void forward_logits(Ctx&, ParameterStore&, const Batch&, LogitLoss&, Tensor /*loss*/) {
    throw InternalError("forward_logits: not of this model");
  }
  virtual void forward_backward_logits(Ctx&, ParameterStore&, const Batch&, LogitLoss&, Tensor /*loss*/,
                                       float /*scale*/) {
    throw InternalError("forward_backward_logits: not of this model");
  }
  // Runs the batch and keeps in c.saved the states that its targets' logits are computed from.
  virtual std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, const Batch&) {
    throw InternalError("target_logits: not of this model");
  }
  // logits (batch.target_rows, V) in the activations' dtype.
  virtual void logits(Ctx&, ParameterStore&, const Batch&, Tensor logits) = 0;
  virtual std::int64_t vocab_size() const = 0;

  // Keeps only this rank's stages, one or several chunks of the model: add_units() and all passes are about
  // these; visit() still visits the complete model. Called after cut() and before add_units(). Throws
  // UserError (config) if the model cannot be split into stages.
  virtual void keep_stages(const std::vector<Stage>& chunks) {
    throw UserError(Exit::config, str("distributed.pipeline_parallel_size is ", chunks[0].size,
                                      ": the blocks of this model cannot be dealt out yet; leave it out"));
  }
  // Begins the passes of a chunk over one micro-batch: take_in, forward_stage, take_gradients,
  // backward_stage. Passes over other micro-batches may come in between. Each micro-batch has a slot and,
  // until its backward pass is over, a Ctx with its own c.saved. Returns the tensors that receive the states
  // from the stage below; none in the first stage.
  virtual States take_in(Ctx&, Batch, int /*chunk*/, std::size_t /*slot*/) {
    throw InternalError("take_in: not a stage");
  }
  // Returns the states for the stage above; none in the last one.
  virtual States forward_stage(Ctx&, ParameterStore&, std::size_t /*slot*/) {
    throw InternalError("forward_stage: not a stage");
  }
  // Returns the tensors that receive the gradients of the states, if this stage or one below it is trained;
  // none in the last stage. They are in c.scratch or, with several chunks, replace the states, which have
  // been sent.
  virtual States take_gradients(Ctx&, std::size_t /*slot*/) {
    throw InternalError("take_gradients: not a stage");
  }
  // Runs the backward pass; the last stage computes the gradient of the loss first. Adds to the gradients of
  // its parameters. Returns the gradients of the states from below, if something further down is trained.
  virtual States backward_stage(Ctx&, ParameterStore&, std::size_t /*slot*/, const StageLoss&) {
    throw InternalError("backward_stage: not a stage");
  }

  // Takes memory for keys and values from the arena. DType: the activations' type.
  virtual KvCache make_kv_cache(Arena&, KvCacheShape, DType) const = 0;
  // Encoder-decoders: encodes sources, and keeps the keys and values that the decoder reads. The first new
  // token of a sequence is then decoder_start_token_id. Sources without places are computed and not kept.
  virtual void encode(Ctx&, ParameterStore&, const KvCache&, const Sources&) {
    throw InternalError("encode: not an encoder-decoder");
  }
  // Longrope: a sequence's keys have to be computed anew when it grows beyond this many tokens, because all
  // of them are rotated by other frequencies from then on. 0: never.
  virtual std::int64_t keys_turn_at() const { return 0; }
  // Runs the new tokens and keeps their keys and values. logits (sequences, V), in the activations' dtype,
  // predict the token that follows each sequence; (wanted, V) if Continuation::wanted names rows.
  virtual void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor logits) = 0;

 protected:
  // Does what cut() promises, for more than one rank; cut() itself marks the parameters that every rank has.
  virtual void cut_all(TensorRank) { throw InternalError("cut: not of this model"); }
};

}  // namespace ft
