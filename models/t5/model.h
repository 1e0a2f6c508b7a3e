// T5, an encoder-decoder: embedding, encoder, decoder, head.
#pragma once
#include <algorithm>

#include "engine/nn/block_stack.h"
#include "engine/nn/embedding_and_head.h"
#include "engine/nn/model.h"
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
  void set_embedding_noise(double) override {
    throw UserError(Exit::config, "training.neftune_noise_alpha: not for encoder-decoders; leave it out");
  }
  std::int64_t blocks() const override { return encoder_.blocks.size() + decoder_.blocks.size(); }
  void set_recompute(std::int64_t n) override {
    const std::int64_t encoders = encoder_.blocks.size();
    encoder_.blocks.recomputed = n < encoders ? n : encoders + 1;  // the decoder is in between
    decoder_.blocks.recomputed = std::min(n, blocks()) - encoders;
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

 private:
  struct Stack {
    std::string name;  // encoder, decoder
    RelativeBias bias;
    std::vector<Block> layers;
    BlockStack<Block> blocks;  // these
    // Whether backward must pass through the blocks because something in them is trained.
    bool trained();
    void visit(Visitor&);
    void cut(TensorRank);
    // all: see BlockStack.
    void add_units(ParameterStore&, bool all);
  };
  struct Inputs {  // a batch on the device
    Tensor ids, source_ids;
    Targets targets;
    Side encoder, decoder;
    // Where ranks share the batch: this one's part, and the numbers of its rows and of its first target.
    Batch part = {};
    RowNumbers source_rows = {}, rows = {}, first_target = {};
  };
  Stack make_stack(bool decoder, DType) const;
  Inputs upload_part(Ctx&, ParameterStore&, const Batch& whole, bool gradient);
  // `whole` says how long sequences are.
  Inputs upload(Ctx&, ParameterStore&, const Batch&, const Batch& whole, bool gradient);
  Tensor embed(Ctx&, ParameterStore&, Tensor ids, const Stack&);
  void embed_backward(Ctx&, ParameterStore&, Tensor d, Tensor ids, const Stack&);
  // What the decoder reads of the encoder, from the last block's states.
  struct Memory {
    Tensor x, states;   // (source rows, C)
    Tensor statistics;  // of the norm between them
  };
  Memory finish(Ctx&, ParameterStore&, Tensor x);
  Tensor hidden(Ctx&, ParameterStore&, Inputs&);  // the decoder's, nothing kept
  // head: from the decoder's last states to their gradient.
  template <class HeadPass>
  void train(Ctx&, ParameterStore&, const Batch&, HeadPass head);
  void encoder_backward(Ctx&, ParameterStore&, const Inputs&, const Memory&);

  Config config_;
  EmbeddingAndHead vocabulary_;
  Stack encoder_;
  Norm encoder_norm_;
  Stack decoder_;
  Dropout dropout_;
  SparseAttention sparse_;  // the encoder's
  int encoder_norm_unit_ = -1;
  bool encoder_gradient_ = false;  // something of the encoder is trained
};

}  // namespace ft::t5
