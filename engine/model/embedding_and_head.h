// The two ends of a language model: the table that turns tokens into states, and the head that turns states
// into tokens. They may share one matrix; each is a unit of the store.
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

  // Makes the embedding's table the head's matrix.
  void tie();
  // Gives a tied head its own matrix, which begins as a copy of the table.
  void untie();
  // Makes the head give a score instead of logits: see Model::score_instead.
  void score_instead();

  // Keeps only the rank's part of the vocabulary; see Model::cut.
  void cut(TensorRank);

  // Keeps the embedding in a pipeline's first stage and the head in its last one. A tied table is in both.
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
  // Units that the embedding, or the head, uses, in the order of their use.
  std::vector<int> embedding_units() const;
  std::vector<int> head_units() const;

  // Returns the states (ids, C), in c.saved. positions: rows of the table of positions; empty if there is
  // none.
  Tensor embed(Ctx&, ParameterStore&, Tensor ids, Tensor positions = {}) const;
  // complete: nothing adds to the table's gradient after this call. Changes d.
  void embed_backward(Ctx&, ParameterStore&, Tensor d, Tensor ids, bool complete,
                      Tensor positions = {}) const;

  // Do the same as the functions of Head with the same names, and acquire the units that they need.
  // forward_backward returns the gradient of x, in c.scratch.
  void forward(Ctx&, ParameterStore&, Tensor loss, Tensor x, const Targets&) const;
  Tensor forward_backward(Ctx&, ParameterStore&, Tensor loss, Tensor x, const Targets&, float loss_scale,
                          float smoothing) const;
  void forward(Ctx&, ParameterStore&, RowLoss&, Tensor x, const Targets&) const;
  Tensor forward_backward(Ctx&, ParameterStore&, RowLoss&, Tensor x, const Targets&) const;
  void forward(Ctx&, ParameterStore&, LogitLoss&, Tensor loss, Tensor x, const Targets&) const;
  Tensor forward_backward(Ctx&, ParameterStore&, LogitLoss&, Tensor loss, Tensor x, const Targets&,
                          float loss_scale) const;
  // Computes logits in the last stage of a pipeline and sends them to all other stages.
  void logits(Ctx&, ParameterStore&, Tensor y, Tensor x, Tensor rows) const;
  // Logits of these rows of x; see Model::target_logits.
  std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, Tensor x, Tensor rows) const;

 private:
  struct HeadUse;
  class HeldHead;
  template <class Backward>
  Tensor back_from_head(Ctx&, ParameterStore&, Tensor x, Backward backward) const;

  // Parameters that both ends use if they are tied: the table and everything that is trained in it.
  std::vector<Parameter*> shared();

  bool tied_ = false, embeds_ = true, has_head_ = true;
  int embedding_unit_ = -1, head_unit_ = -1;
};

}  // namespace ft
