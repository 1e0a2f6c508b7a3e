// Token embedding: rows of a table, which a family may multiply, project to another width, and add the rows
// of a table of positions to, in this order; then dropout.
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
  Parameter weight;                    // (V, w)
  float scale = 1;                     // of its rows
  std::int64_t padding = -1;           // looking this row up gives it no gradient; -1: there is none such
  std::optional<Linear> project;       // (C, w); none: w is C
  std::optional<Parameter> positions;  // (P, C)
  Dropout dropout;
  std::unique_ptr<TokenRows> trained;         // rows apart from the table; null: none
  std::unique_ptr<EmbeddingAdapter> adapter;  // null: none

  std::int64_t width() const { return project ? project->out : weight.shape[1]; }

  // Makes the bound table complete.
  void prepare(Ctx& c) const {
    if (trained) trained->put_into(c, weight.value);
  }
  // Ids on the device, as forward and backward take them: of a rank's part of the table, those that are not
  // in it are negative.
  Tensor upload(Ctx&, const std::vector<std::int32_t>& ids) const;
  // Leaves the rank's rows of the table. UserError (exit 2) where rows of it are trained apart or it has an
  // adapter.
  void cut(TensorRank);
  // y (ids, C). at: rows of the table of positions; empty without one.
  void forward(Ctx&, Tensor y, Tensor ids, Tensor at = {}) const;
  // Own gradients +=; changes dy.
  void backward(Ctx&, Tensor dy, Tensor ids, Tensor at = {}) const;
  void visit(Visitor&);

 private:
  bool trains_rows() const { return weight.grad || (trained && trained->values.grad) || adapter; }
  void look_up(Ctx&, Tensor y, Tensor ids) const;
  std::int64_t first_row() const;  // of the rank's part
};

// The embedding's table used as the head's matrix; the embedding owns it.
class TiedWeight final : public Weight {
 public:
  explicit TiedWeight(const Embedding& e) : embedding_(e) {}
  Term times(Tensor x, Trans t) const override { return {x, Trans::no, embedding_.weight.value, t}; }
  bool trains() const override { return embedding_.weight.trainable; }
  Tensor grad() const override { return embedding_.weight.grad; }
  void prepare(Ctx& c) const override { embedding_.prepare(c); }
  void add_grad(Ctx& c, Tensor dy, Tensor x) const override {
    Weight::add_grad(c, dy, x);
    if (embedding_.trained) embedding_.trained->backward_of_columns(c, dy, x);
  }
  void cut(int, TensorRank, const Parts&) override {}  // the embedding's table is

 private:
  const Embedding& embedding_;
};

}  // namespace ft
