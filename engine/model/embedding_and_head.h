// Both ends of a language model: the table that turns tokens into states, and the head that turns states into
// tokens. They may share one matrix; each is a unit of the store.
#pragma once
#include "engine/layers/embedding.h"
#include "engine/model/head.h"
#include "engine/parallel/stage.h"
#include "engine/zero/parameter_store.h"

namespace ft {

class EmbeddingAndHead {
 public:
  Embedding embedding;
  Head head;

  EmbeddingAndHead() = default;
  EmbeddingAndHead(const EmbeddingAndHead&) = delete;  // a tied head refers to the embedding
  EmbeddingAndHead& operator=(const EmbeddingAndHead&) = delete;

  // The head's matrix is the embedding's table.
  void tie();
  // Gives a tied head a matrix of its own, with the table's first values.
  void untie();
  // The head gives a score in place of logits: see Model::score_instead.
  void score_instead();

  // Leaves the rank's part of the vocabulary; see Model::cut.
  void cut(TensorRank);

  // A pipeline's first stage embeds, and its last has the head. A table that serves both is in both.
  void keep_stages(const std::vector<Stage>&);

  // See Model.
  Parameter& train_rows(Parameter values, std::vector<std::int32_t> ids);
  Parameter& train_head_rows(Parameter values, std::vector<std::int32_t> ids);
  void adapt_embedding(std::unique_ptr<EmbeddingAdapter>);

  void visit_embedding(Visitor&);
  void visit_head(Visitor&);
  void add_embedding(ParameterStore&);
  void add_head(ParameterStore&);
  int embedding_unit() const { return embedding_unit_; }
  // What embedding, and the head, use, in this order.
  std::vector<int> embedding_units() const;
  std::vector<int> head_units() const;

  // States (ids, C), in c.saved. positions: of a table of them; empty without one.
  Tensor embed(Ctx&, ParameterStore&, Tensor ids, Tensor positions = {}) const;
  // complete: nothing adds to the table's gradient after this. Changes d.
  void embed_backward(Ctx&, ParameterStore&, Tensor d, Tensor ids, bool complete,
                      Tensor positions = {}) const;

  // As those of Head. forward_backward returns the gradient of x, in c.scratch.
  void forward(Ctx&, ParameterStore&, Tensor loss, Tensor x, const Targets&) const;
  Tensor forward_backward(Ctx&, ParameterStore&, Tensor loss, Tensor x, const Targets&, float loss_scale,
                          float smoothing) const;
  void forward(Ctx&, ParameterStore&, RowLoss&, Tensor x, const Targets&) const;
  Tensor forward_backward(Ctx&, ParameterStore&, RowLoss&, Tensor x, const Targets&) const;
  void forward(Ctx&, ParameterStore&, LogitLoss&, Tensor loss, Tensor x, const Targets&) const;
  Tensor forward_backward(Ctx&, ParameterStore&, LogitLoss&, Tensor loss, Tensor x, const Targets&,
                          float loss_scale) const;
  // The last stage of a pipeline makes them, and gives them to all others.
  void logits(Ctx&, ParameterStore&, Tensor y, Tensor x, Tensor rows) const;
  // For these rows of x; see Model::target_logits.
  std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, Tensor x, Tensor rows) const;

 private:
  struct HeadUse;
  class HeldHead;
  template <class Backward>
  Tensor back_from_head(Ctx&, ParameterStore&, Tensor x, Backward backward) const;

  // Both ends use these: the table and whatever is trained of it, where they are tied.
  std::vector<Parameter*> shared();

  bool tied_ = false, embeds_ = true, has_head_ = true;
  int embedding_unit_ = -1, head_unit_ = -1;
};

}  // namespace ft
