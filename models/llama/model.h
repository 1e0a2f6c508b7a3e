// A LLaMA-like causal language model: embedding, blocks, head.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>

#include "engine/nn/block_stack.h"
#include "engine/nn/embedding.h"
#include "engine/nn/head.h"
#include "engine/nn/model.h"
#include "models/llama/block.h"
#include "models/llama/config.h"
#include "models/llama/positions.h"

namespace ft::llama {

class Llama final : public Model {
 public:
  Llama(Config, DType);

  void visit(Visitor&) override;
  void add_units(ParameterStore&) override;
  void untie() override;
  std::int64_t blocks() const override { return stack_.size(); }
  void set_recompute(std::int64_t n) override {
    stack_.recomputed = std::min(n, blocks());
    stack_.segment = segment_of(n);
  }
  void forward(Ctx&, ParameterStore&, const Batch&, Tensor loss) override;
  void forward_backward(Ctx&, ParameterStore&, const Batch&, Tensor loss, float scale,
                        float smoothing) override;
  void logits(Ctx&, ParameterStore&, const Batch&, Tensor logits) override;
  std::int64_t vocab_size() const override { return config_.vocab_size; }
  KvCache make_kv_cache(Arena&, KvCacheShape, DType) const override;
  void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor logits) override;

 private:
  struct Inputs {  // a batch on the device
    Tensor ids;
    Targets targets;
    Positions side;
  };
  Inputs upload(Ctx&, const Batch&);
  Tensor embed(Ctx&, ParameterStore&, const Inputs&);
  Tensor hidden(Ctx&, ParameterStore&, const Inputs&);  // after the last block, nothing kept
  // The head's unit, and the embedding's where the head uses its table.
  struct HeadUse {
    HeadUse(Llama& m, ParameterStore& store, bool backward) : head(store, m.head_unit_, backward) {
      if (m.config_.tie_word_embeddings) table.emplace(store, m.embed_unit_, backward);
    }
    Use head;
    std::optional<Use> table;
  };

  std::vector<int> step_units(const ParameterStore&) const;  // with a backward pass

  Config config_;
  Embedding embed_tokens_;
  BlockStack<Block> stack_;
  Head head_;
  int embed_unit_ = -1, head_unit_ = -1;
  RopeTable rope_;                  // of the longest batch so far
  std::vector<int> forward_units_;  // in the order of their use
};

}  // namespace ft::llama
