// A decoder-only language model, one class for all families: embedding, blocks and head, and the order in
// which their units are used. Training is in causal_lm.cpp, pipelines in causal_lm_stages.cpp, generation in
// causal_lm_decoding.cpp. A family provides the parts.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/layers/attention/position_encoding.h"
#include "engine/layers/routing.h"
#include "engine/model/block_stack.h"
#include "engine/model/cached_decoding.h"
#include "engine/model/decoder_block.h"
#include "engine/model/model.h"
#include "engine/model/per_layer_inputs.h"
#include "engine/model/stages.h"

namespace ft {

class CausalLm final : public Model, private Stages, private CachedDecoding {
 public:
  struct Parts {
    Embedding embedding;
    PositionEncoding positions;
    std::string stack;  // name of the stack of blocks, see BlockStack
    std::vector<DecoderBlock> blocks;
    Head head;
    bool tied = false;          // the head uses the embedding's table
    std::int64_t heads = 0;     // query heads
    RouterBalanceLoss balance;  // of layers with experts
    std::optional<PerLayerInputs> per_layer;
    // Tokens for images or sound in a larger model; they are embedded as the padding token.
    std::vector<std::int32_t> placeholders;
  };
  explicit CausalLm(Parts);

  void visit(Visitor&) override;
  void add_units(ParameterStore&) override;

  void share_rows(std::int64_t ranks, SequenceSharing) override;
  void set_sparse_attention(const SparseAttentionConfig&) override;
  void drop_tokens(const std::vector<std::int64_t>& blocks, bool encoder, std::int64_t all) override;
  bool set_embedding_noise(double alpha) override;
  bool set_invocation(std::vector<std::int32_t> tokens) override {
    invocation_ = std::move(tokens);
    return true;
  }
  std::span<const std::int32_t> invocation() const override { return invocation_; }
  std::int64_t blocks() const override;
  // True if a layer has a state instead of keys and values.
  bool recurrent() const;
  void set_recompute(std::int64_t n) override;

  void forward(Ctx&, ParameterStore&, const Batch&, const Loss&) override;
  void forward_backward(Ctx&, ParameterStore&, const Batch&, const Loss&) override;
  void logits(Ctx&, ParameterStore&, const Batch&, Tensor logits) override;
  std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, const Batch&) override;

  Stages* stages() override { return this; }
  CachedDecoding* decoding() override { return this; }

 private:
  struct Inputs {  // a batch on the device
    Tensor ids;
    Targets targets;
    Positions side;
    std::optional<Batch> part = {};  // this rank's part of a shared batch, which side refers to
  };
  struct Flight {  // a micro-batch between its passes through a stage
    std::size_t chunk = 0;
    Batch batch;
    Inputs in;
    Tensor x, y, d;  // states from the stage below; states for the stage above; their gradient
  };

  void cut_all(TensorRank) override;

  void keep_stages(const std::vector<Stage>& chunks) override;
  States take_in(Ctx&, Batch, int chunk, std::size_t slot) override;
  States forward_stage(Ctx&, ParameterStore&, std::size_t slot) override;
  States take_gradients(Ctx&, std::size_t slot) override;
  States backward_stage(Ctx&, ParameterStore&, std::size_t slot, const Loss&) override;

  KvCache make_kv_cache(Arena&, KvCacheShape, DType) const override;
  std::int64_t keys_turn_at() const override { return positions_.turns_at; }
  bool forgets() const override { return !recurrent(); }
  void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor logits) override;

  // Uploads the tokens' ids, as the embedding takes them.
  Tensor upload_ids(Ctx&, const std::vector<std::int32_t>& ids) const;
  // Uploads this rank's part of a batch whose rows ranks may share.
  Inputs upload_part(Ctx&, const Batch& whole);
  Inputs upload(Ctx&, const Batch&);
  // Returns this rank's rows of the embedded tokens, with noise.
  Tensor embed(Ctx&, ParameterStore&, const Inputs&, std::int64_t longest);
  void add_noise(Ctx&, Tensor x, std::int64_t longest) const;
  // Takes memory for the keys and values that layers lend, from c.saved.
  std::vector<LentKeys> take_loans(Ctx&, std::int64_t rows, bool backward) const;
  bool lends_keys() const;
  // Returns the states after the last block and keeps nothing else.
  Tensor hidden(Ctx&, ParameterStore&, Tensor ids, Positions);
  PerLayerInputs::Saved begin_inputs(Ctx&, ParameterStore&, Tensor x, Inputs&, bool embedding_grad) const;
  Tensor run_chunk(Ctx&, ParameterStore&, Tensor ids, Positions&, BlockStack<DecoderBlock>&);
  Tensor room_for_states(Ctx&, const Tensor& ids) const;
  // True if a block of the chunk is trained, or anything below it.
  static bool trains_from(const BlockStack<DecoderBlock>&);
  // Units of a forward pass, and of a forward and a backward pass, in the order of their use.
  std::vector<int> forward_units() const;
  std::vector<int> step_units(const ParameterStore&) const;

  PositionEncoding positions_;
  std::vector<DecoderBlock> blocks_;
  // A stack of all blocks, or this rank's chunks in a pipeline. The states of the last one go to the head.
  std::vector<BlockStack<DecoderBlock>> chunks_ = std::vector<BlockStack<DecoderBlock>>(1);
  std::int64_t heads_;
  RouterBalanceLoss balance_;
  std::optional<PerLayerInputs> per_layer_;
  std::vector<std::int32_t> placeholders_;
  SparseAttention sparse_;
  double noise_ = 0;                      // NEFTune's alpha
  std::vector<std::int32_t> invocation_;  // from which adapters act; empty: no adapter waits
  std::vector<bool> trains_below_;        // (chunks) something below the chunk's first block is trained
  std::vector<Flight> flights_;           // by slot
};

}  // namespace ft
