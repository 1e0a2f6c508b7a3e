// Token embedding: rows of a table. A family may multiply them, project them to another width and add rows of
// a table of positions, in this order; dropout comes last.
#pragma once
#include <memory>
#include <optional>

#include "engine/layers/dropout.h"
#include "engine/layers/embedding_adapter.h"
#include "engine/layers/linear.h"
#include "engine/layers/token_rows.h"
#include "engine/ops/products.h"

namespace ft {

struct Embedding {
  Parameter weight;               // (V, w)
  float scale = 1;                // factor of its rows
  std::int64_t padding = -1;      // this row gets no gradient from being looked up; -1: there is no such row
  std::optional<Linear> project;  // (C, w); none: w is C
  std::optional<Parameter> positions;  // (P, C)
  Dropout dropout;
  std::unique_ptr<TokenRows> trained;         // rows that are trained as a separate parameter; null: none
  std::unique_ptr<EmbeddingAdapter> adapter;  // null: none

  std::int64_t width() const { return project ? project->out : weight.shape[1]; }

  // Writes the separately trained rows into the bound table.
  void prepare(Ctx& c) const {
    if (trained) trained->put_into(c, weight.value);
  }
  // Copies ids to the device, as forward and backward take them. If the rank has a part of the table, ids
  // that are not in it become negative.
  Tensor upload(Ctx&, const std::vector<std::int32_t>& ids) const;
  // Keeps only the rank's rows of the table. Throws UserError (config) if some rows are trained separately or
  // the table has an adapter.
  void cut(TensorRank);
  // y (ids, C). at: rows of the table of positions; empty if there is none.
  void forward(Ctx&, Tensor y, Tensor ids, Tensor at = {}) const;
  // Adds to the gradients of its parameters; changes dy.
  void backward(Ctx&, Tensor dy, Tensor ids, Tensor at = {}) const;
  void visit(Visitor&);

 private:
  bool trains_rows() const { return weight.grad || (trained && trained->values.grad) || adapter; }
  void look_up(Ctx&, Tensor y, Tensor ids) const;
  std::int64_t first_row() const;  // first row of the rank's part
};

// The embedding's table, which the embedding owns, used as the head's matrix.
class TiedWeight final : public Weight {
 public:
  explicit TiedWeight(const Embedding& e) : embedding_(e) {}
  Term times(Tensor x, Trans t) const override { return {x, Trans::no, embedding_.weight.value, t}; }
  bool trains() const override { return embedding_.weight.trainable; }
  Tensor grad() const override { return embedding_.weight.grad; }
  void prepare(Ctx& c) const override { embedding_.prepare(c); }
  void add_grad(Ctx& c, Tensor dy, Tensor x) override {
    Weight::add_grad(c, dy, x);
    if (embedding_.trained) embedding_.trained->backward_of_columns(c, dy, x);
  }
  void cut(int, TensorRank, const Parts&) override {}  // the embedding cuts its table

 private:
  const Embedding& embedding_;
};

}  // namespace ft
