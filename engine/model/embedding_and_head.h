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
  // Gives a tied head its own matrix, which begins as a copy of the table; a head with its own keeps it.
  void untie();
  // Replaces the projection to the vocabulary by one to scores, `name`.weight (labels, C), perhaps with a
  // bias.
  void score_instead(const std::string& name = "score", std::int64_t labels = 1, bool bias = false);
  // Removes the projection: the normed states are the result.
  void embed_instead();

  // Keeps only the rank's part of the vocabulary; see Model::cut.
  void cut(TensorRank);

  // Keeps the embedding in a pipeline's first stage and the head in its last one. A tied table is in both.
  void keep_stages(const std::vector<Stage>&);

  // Trains these rows of the embedding's table, and of a head that shares it, as a separate parameter (n, C).
  Parameter& train_rows(Parameter values, std::vector<std::int32_t> ids);
  // Trains these rows of the head's own matrix as a separate parameter.
  Parameter& train_head_rows(Parameter values, std::vector<std::int32_t> ids);
  // Adds to the rows that the embedding looks up. A head that shares the table is not affected.
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
  void forward(Ctx&, ParameterStore&, Tensor x, const Targets&, const Loss&) const;
  Tensor forward_backward(Ctx&, ParameterStore&, Tensor x, const Targets&, const Loss&) const;
  // Computes logits in the last stage of a pipeline and sends them to all other stages.
  void logits(Ctx&, ParameterStore&, Tensor y, Tensor x, Tensor rows) const;
  // Logits of these rows of x; see Model::target_logits.
  std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, Tensor x, Tensor rows) const;

 private:
  struct HeadUse;
  class HeldHead;

  // Parameters that both ends use if they are tied: the table and everything that is trained in it.
  std::vector<Parameter*> shared();

  bool tied_ = false, embeds_ = true, has_head_ = true;
  int embedding_unit_ = -1, head_unit_ = -1;
};

}  // namespace ft
