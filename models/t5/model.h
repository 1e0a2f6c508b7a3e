// T5, an encoder-decoder: embedding, encoder, decoder, head.
#pragma once
#include <algorithm>

#include "engine/model/block_stack.h"
#include "engine/model/embedding_and_head.h"
#include "engine/model/model.h"
#include "models/t5/block.h"
#include "models/t5/config.h"

namespace ft::t5 {

class T5 final : public Model {
 public:
  T5(Config, DType);

  void visit(Visitor&) override;
  void add_units(ParameterStore&) override;
  void untie() override { vocabulary_.untie(); }
  void set_sparse_attention(const SparseAttentionConfig& config) override {
    sparse_ = SparseAttention(config, AttentionDirection::bidirectional, config_.num_heads);
  }
  const Parameter& input_embedding() const override { return vocabulary_.embedding.weight; }
  Parameter& train_rows(Parameter values, std::vector<std::int32_t> ids) override {
    return vocabulary_.train_rows(std::move(values), std::move(ids));
  }
  Parameter& train_head_rows(Parameter values, std::vector<std::int32_t> ids) override {
    return vocabulary_.train_head_rows(std::move(values), std::move(ids));
  }
  void adapt_embedding(std::unique_ptr<EmbeddingAdapter> adapter) override {
    vocabulary_.adapt_embedding(std::move(adapter));
  }
  void set_embedding_noise(double) override {
    throw UserError(Exit::config, "training.neftune_noise_alpha: not for encoder-decoders; leave it out");
  }
  std::int64_t blocks() const override { return encoder_.blocks.size() + decoder_.blocks.size(); }
  void set_recompute(std::int64_t n) override {
    const std::int64_t encoders = encoder_.blocks.size(), some = std::max<std::int64_t>(n, 0),
                       whole = std::clamp<std::int64_t>(-n, 0, blocks());
    encoder_.blocks.recomputed = some < encoders ? some : encoders + 1;  // the decoder is in between
    decoder_.blocks.recomputed = std::min(some, blocks()) - encoders;
    decoder_.blocks.whole = std::min(whole, decoder_.blocks.size());
    encoder_.blocks.whole = whole - decoder_.blocks.whole;
    encoder_.blocks.segment = decoder_.blocks.segment = segment_of(n);
  }
  void drop_tokens(const std::vector<std::int64_t>& blocks, bool encoder, std::int64_t all) override {
    (encoder ? encoder_ : decoder_).blocks.drop_tokens(blocks, all);
  }
  void forward(Ctx&, ParameterStore&, const Batch&, Tensor loss) override;
  void forward_backward(Ctx&, ParameterStore&, const Batch&, Tensor loss, float scale,
                        float smoothing) override;
  void forward_rows(Ctx&, ParameterStore&, const Batch&, RowLoss&) override;
  void forward_backward_rows(Ctx&, ParameterStore&, const Batch&, RowLoss&) override;
  void forward_logits(Ctx&, ParameterStore&, const Batch&, LogitLoss&, Tensor loss) override;
  void forward_backward_logits(Ctx&, ParameterStore&, const Batch&, LogitLoss&, Tensor loss,
                               float scale) override;
  std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, const Batch&) override;
  void logits(Ctx&, ParameterStore&, const Batch&, Tensor logits) override;
  std::int64_t vocab_size() const override { return vocabulary_.head.lm_head.whole_out(); }
  KvCache make_kv_cache(Arena&, KvCacheShape, DType) const override;
  void encode(Ctx&, ParameterStore&, const KvCache&, const Sources&) override;
  void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor logits) override;

  void cut_all(TensorRank) override;
  void share_rows(std::int64_t ranks, SequenceSharing) override;

  void keep_stages(const std::vector<Stage>&) override;
  States take_in(Ctx&, Batch, int chunk, std::size_t slot) override;
  States forward_stage(Ctx&, ParameterStore&, std::size_t slot) override;
  States take_gradients(Ctx&, std::size_t slot) override;
  States backward_stage(Ctx&, ParameterStore&, std::size_t slot, const StageLoss&) override;

 private:
  struct Stack {
    std::string name;  // encoder, decoder
    RelativeBias bias;
    std::vector<Block> layers;
    BlockStack<Block> blocks;  // these, or those of them that this rank of a pipeline has
    bool empty() const { return blocks.size() == 0; }
    // Whether its first block is here, which has the bias of all, and whether its last one is.
    bool begins() const { return !empty() && blocks.stage.begin == 0; }
    bool ends() const {
      return !empty() && (blocks.stage.size == 1 || blocks.stage.end == std::ssize(layers));
    }
    // Whether backward must pass through the first blocks, this many, because something in them is trained.
    bool trained(std::int64_t first);
    void visit(Visitor&);
    void cut(TensorRank);
    // all: see BlockStack.
    void add_units(ParameterStore&, bool all);
    // As those of BlockStack, with the bias; keeps: for a backward pass.
    Tensor run(Ctx&, ParameterStore&, Tensor x, const Side&, std::span<const std::int32_t> kept_starts,
               bool keeps);
    void backward(Ctx&, ParameterStore&, Tensor d, const Side&, bool input_grad);
  };
  struct Inputs {  // a batch on the device
    Tensor ids, source_ids;
    Targets targets;
    Side encoder, decoder;
    std::span<const std::int32_t> kept_starts = {}, kept_source_starts = {};  // of the batch
    // Where ranks share the batch: this one's part, and the numbers of its rows and of its first target.
    Batch part = {};
    RowNumbers source_rows = {}, rows = {}, first_target = {};
  };
  // What the decoder reads of the encoder, from the last block's states.
  struct Memory {
    Tensor x, states;   // (source rows, C)
    Tensor statistics;  // of the norm between them
  };
  // A batch on its way through the blocks.
  struct Flight {
    Inputs in;
    Batch batch = {};                            // of a stage
    Tensor source_states = {}, states = {};      // once the encoder has ended the former are the memory
    Tensor d_source_states = {}, d_states = {};  // the gradients, the memory in f32, +=; empty: not wanted
    Memory memory = {};
  };
  // What is trained below a block, so that a gradient has to go down there.
  struct Wanted {
    bool sources = false, targets = false;
  };
  Stack make_stack(bool decoder, DType) const;
  Wanted wanted_below(std::int64_t block);
  Inputs upload_part(Ctx&, const Batch& whole);
  // `whole` says how long sequences are.
  Inputs upload(Ctx&, const Batch&, const Batch& whole);
  Tensor embed(Ctx&, ParameterStore&, Tensor ids, const Stack&);
  void embed_backward(Ctx&, ParameterStore&, Tensor d, Tensor ids, const Stack&);
  Memory finish(Ctx&, ParameterStore&, Tensor x);
  // Through what this rank has of the encoder, and of the decoder.
  void run_encoder(Ctx&, ParameterStore&, Flight&, bool keeps);
  void run_decoder(Ctx&, ParameterStore&, Flight&, bool keeps);
  Tensor hidden(Ctx&, ParameterStore&, Flight&);  // the decoder's, nothing kept
  // head: from the decoder's last states to their gradient.
  template <class HeadPass>
  void train(Ctx&, ParameterStore&, const Batch&, HeadPass head);
  // Takes gradients from c.scratch, 0, that nothing above has begun: the memory's, and of the bias of a stack
  // that ends here.
  void begin_gradients(Ctx&, Flight&) const;
  void backward(Ctx&, ParameterStore&, Flight&);                 // from the gradients of the last states down
  Tensor memory_backward(Ctx&, ParameterStore&, const Flight&);  // to the encoder's last states

  // Between stages, of which the upper begins with a block.
  RelativeBias::Pass bias_between(const Inputs&, std::int64_t block) const;
  States states_between(const Flight&, std::int64_t block) const;
  States take_states(Ctx&, Flight&) const;  // of the stage below
  void receive(Ctx&, Flight&) const;
  void send(Ctx&, const Flight&) const;

  Config config_;
  EmbeddingAndHead vocabulary_;
  Stack encoder_;
  Norm encoder_norm_;
  Stack decoder_;
  Dropout dropout_;
  SparseAttention sparse_;  // the encoder's
  int encoder_norm_unit_ = -1;
  bool encoder_gradient_ = false;  // something of the encoder is trained
  Stage stage_;                    // of all blocks, the encoder's first; by default the only one
  Wanted below_, here_;            // what is trained below this rank's blocks, and there or in them
  std::vector<Flight> flights_;    // by slot
};

}  // namespace ft::t5
