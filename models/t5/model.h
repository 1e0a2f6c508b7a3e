// T5, an encoder-decoder: embedding, encoder, decoder, head.
#pragma once
#include "engine/model/block_stack.h"
#include "engine/model/cached_decoding.h"
#include "engine/model/model.h"
#include "engine/model/stages.h"
#include "models/t5/block.h"
#include "models/t5/config.h"

namespace ft::t5 {

class T5 final : public Model, private Stages, private CachedDecoding, private SourceEncoder {
 public:
  T5(Config, DType);

  void visit(Visitor&) override;
  void add_units(ParameterStore&) override;

  void share_rows(std::int64_t ranks, SequenceSharing) override;
  void set_sparse_attention(const SparseAttentionConfig&) override;
  void drop_tokens(const std::vector<std::int64_t>& blocks, bool encoder, std::int64_t all) override;
  std::int64_t blocks() const override { return encoder_.blocks.size() + decoder_.blocks.size(); }
  void set_recompute(std::int64_t n) override;

  void forward(Ctx&, ParameterStore&, const Batch&, const Loss&) override;
  void forward_backward(Ctx&, ParameterStore&, const Batch&, const Loss&) override;
  void logits(Ctx&, ParameterStore&, const Batch&, Tensor logits) override;
  std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, const Batch&) override;

  Stages* stages() override { return this; }
  CachedDecoding* decoding() override { return this; }
  SourceEncoder* encoder() override { return this; }

 private:
  struct Stack {
    std::string name;  // encoder, decoder
    RelativeBias bias;
    std::vector<Block> layers;
    BlockStack<Block> blocks;  // all layers, or this pipeline rank's layers
    bool empty() const { return blocks.size() == 0; }
    // begins: the stack's first block is here, which holds the bias of all blocks. ends: its last block is
    // here.
    bool begins() const { return !empty() && blocks.stage.begin == 0; }
    bool ends() const {
      return !empty() && (blocks.stage.size == 1 || blocks.stage.end == std::ssize(layers));
    }
    // True if something in the first `first` blocks or in the bias is trained, so that backward must pass
    // through them.
    bool trained(std::int64_t first);
    void visit(Visitor&);
    void cut(TensorRank);
    // all: see BlockStack.
    void add_units(ParameterStore&, bool all);
    // Like BlockStack's functions, with the bias. keeps: a backward pass follows.
    Tensor run(Ctx&, ParameterStore&, Tensor x, const Side&, std::span<const std::int32_t> kept_starts,
               bool keeps);
    void backward(Ctx&, ParameterStore&, Tensor d, const Side&, bool input_grad);
  };
  struct Inputs {  // a batch on the device
    Tensor ids, source_ids;
    Targets targets;
    Side encoder, decoder;
    std::span<const std::int32_t> kept_starts = {}, kept_source_starts = {};  // of the batch
    // With shared rows: this rank's part of the batch, and the numbers of its rows and of its first target.
    Batch part = {};
    RowNumbers source_rows = {}, rows = {}, first_target = {};
  };
  // The encoder's output, which the decoder reads.
  struct Memory {
    Tensor x, states;   // (source rows, C): before and after the final norm
    Tensor statistics;  // of the final norm
  };
  // A batch that passes through the blocks.
  struct Flight {
    Inputs in;
    Batch batch = {};                            // of a pipeline's stage
    Tensor source_states = {}, states = {};      // after the encoder's end source_states are the memory
    Tensor d_source_states = {}, d_states = {};  // gradients, the memory's in f32, +=; empty: not wanted
    Memory memory = {};
  };
  // Gradients that must pass below a block, because something is trained there.
  struct Wanted {
    bool sources = false, targets = false;
  };
  void cut_all(TensorRank) override;

  void keep_stages(const std::vector<Stage>&) override;
  States take_in(Ctx&, Batch, int chunk, std::size_t slot) override;
  States forward_stage(Ctx&, ParameterStore&, std::size_t slot) override;
  States take_gradients(Ctx&, std::size_t slot) override;
  States backward_stage(Ctx&, ParameterStore&, std::size_t slot, const Loss&) override;

  KvCache make_kv_cache(Arena&, KvCacheShape, DType) const override;
  void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor logits) override;
  void encode(Ctx&, ParameterStore&, const KvCache&, const Sources&) override;

  Stack make_stack(bool decoder, DType) const;
  Wanted wanted_below(std::int64_t block);
  Inputs upload_part(Ctx&, const Batch& whole);
  // Uploads a batch. `whole` tells the lengths of sequences that ranks share.
  Inputs upload(Ctx&, const Batch&, const Batch& whole);
  Tensor embed(Ctx&, ParameterStore&, Tensor ids, const Stack&);
  void embed_backward(Ctx&, ParameterStore&, Tensor d, Tensor ids, const Stack&);
  Memory finish(Ctx&, ParameterStore&, Tensor x);
  // Run this rank's blocks of the encoder, and of the decoder.
  void run_encoder(Ctx&, ParameterStore&, Flight&, bool keeps);
  void run_decoder(Ctx&, ParameterStore&, Flight&, bool keeps);
  Tensor hidden(Ctx&, ParameterStore&, Flight&);  // the decoder's last states, nothing kept
  // Takes gradients from c.scratch and sets them to 0, where no stage above sends them: the memory's
  // gradient, and the gradient of a stack's bias if the stack ends here.
  void begin_gradients(Ctx&, Flight&) const;
  void backward(Ctx&, ParameterStore&, Flight&);  // from the gradients of the last states down
  // Returns the gradient of the encoder's last states.
  Tensor memory_backward(Ctx&, ParameterStore&, const Flight&);

  // Exchange between stages; `block` is the upper stage's first block.
  RelativeBias::Pass bias_between(const Inputs&, std::int64_t block) const;
  States states_between(const Flight&, std::int64_t block) const;
  States take_states(Ctx&, Flight&) const;  // from the stage below
  void receive(Ctx&, Flight&) const;
  void send(Ctx&, const Flight&) const;

  Config config_;
  Stack encoder_;
  Norm encoder_norm_;
  Stack decoder_;
  Dropout dropout_;
  SparseAttention sparse_;  // of the encoder
  int encoder_norm_unit_ = -1;
  bool encoder_gradient_ = false;  // the encoder or the embedding is trained
  Stage stage_;                    // of all blocks, the encoder's first; by default the only stage
  Wanted below_, here_;            // gradients needed below this rank's blocks, and there or in the blocks
  std::vector<Flight> flights_;    // by slot
};

}  // namespace ft::t5
