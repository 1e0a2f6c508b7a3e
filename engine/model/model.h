// The interface of a language model as its users see it: mathematics only.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/batch.h"
#include "engine/layers/attention/sparse_attention.h"
#include "engine/layers/visitor.h"
#include "engine/model/embedding_and_head.h"
#include "engine/model/loss.h"
#include "engine/parallel/cut.h"
#include "engine/pass/context.h"
#include "engine/zero/parameter_store.h"

namespace ft {

class CachedDecoding;
class SourceEncoder;
class Stages;

class Model {
 public:
  virtual ~Model() = default;

  // Visits every unit, Linear and Parameter, in the order of their use.
  virtual void visit(Visitor&) = 0;
  // Gives the store its units. Called once, when all adapters are attached and the trained parameters are
  // chosen.
  virtual void add_units(ParameterStore&) = 0;

  // The table of the input tokens, and the head.
  EmbeddingAndHead& vocabulary() { return vocabulary_; }
  const EmbeddingAndHead& vocabulary() const { return vocabulary_; }
  std::int64_t vocab_size() const { return vocabulary_.head.columns(); }  // of logits()

  // Keeps only this rank's part of each layer if ranks share layers. Called when the trained parameters are
  // chosen and before add_units. Throws UserError (config) if the model cannot be split so.
  void cut(TensorRank t) {
    if (t.size == 1) return;
    cut_all(t);
    EachParameter others([&](Parameter& p) { p.copied = t.rank > 0 && !p.portion; });
    visit(others);
  }
  // Prepares forward() and forward_backward() for so many ranks that share the rows of each micro-batch.
  // Called before the first pass. Throws UserError (config) if the model does not support it.
  virtual void share_rows(std::int64_t ranks, SequenceSharing) = 0;

  // Makes self-attention sparse by blocks: a decoder's, or the encoder's of an encoder-decoder. Called before
  // the first pass. Throws UserError (config) for settings that the model does not support.
  virtual void set_sparse_attention(const SparseAttentionConfig&) = 0;
  // Random-LTD: in training, these blocks of the encoder or of the decoder drop tokens, as the batch asks.
  // Throws UserError (config) if one of the blocks does not exist, or if there are not `all` blocks.
  virtual void drop_tokens(const std::vector<std::int64_t>& blocks, bool encoder, std::int64_t all) = 0;
  // NEFTune (Jain et al. 2023): in training, embedded tokens get uniform noise in +-alpha / sqrt(L C), where
  // L is the number of tokens of the batch's longest sequence. Returns false if the model has no such noise.
  [[nodiscard]] virtual bool set_embedding_noise(double /*alpha*/) { return false; }

  // Adapters that wait for their invocation (invocation.h) act from these tokens on. Returns false if the
  // model cannot tell its rows' tokens.
  [[nodiscard]] virtual bool set_invocation(std::vector<std::int32_t>) { return false; }
  virtual std::span<const std::int32_t> invocation() const { return {}; }  // empty: no adapter waits

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
  // Blocks of a segment for set_recompute(n): only the first block of each segment keeps its input.
  std::int64_t segment_of(std::int64_t n) const { return std::max<std::int64_t>(1, n - blocks() + 1); }
  std::int64_t least_recompute() const { return -blocks(); }
  // The largest useful n: beyond it, the recomputed inputs of a segment take more memory than longer segments
  // save.
  std::int64_t most_recompute() const {
    return blocks() + static_cast<std::int64_t>(std::sqrt(static_cast<double>(blocks()))) - 1;
  }

  // Computes the loss of the batch's targets.
  virtual void forward(Ctx&, ParameterStore&, const Batch&, const Loss&) = 0;
  // Like forward, and adds to the gradients of all trained parameters.
  virtual void forward_backward(Ctx&, ParameterStore&, const Batch&, const Loss&) = 0;
  // logits (batch.target_rows, V) in the activations' dtype.
  virtual void logits(Ctx&, ParameterStore&, const Batch&, Tensor logits) = 0;
  // Runs the batch and keeps in c.saved the states that its targets' logits are computed from.
  virtual std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, const Batch&) = 0;

  // Null: the model cannot be split into stages; it does not generate; it has no encoder.
  virtual Stages* stages() { return nullptr; }
  virtual CachedDecoding* decoding() { return nullptr; }
  virtual SourceEncoder* encoder() { return nullptr; }

 protected:
  // Does what cut() promises, for more than one rank; cut() itself marks the parameters that every rank has.
  virtual void cut_all(TensorRank) = 0;

  EmbeddingAndHead vocabulary_;
};

}  // namespace ft
