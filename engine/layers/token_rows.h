// Rows of a frozen table of embeddings that are trained as a separate parameter (PEFT's trainable tokens).
// They are copied into the table before each use, so that readers of the table need no special case.
#pragma once
#include <vector>

#include "engine/layers/weight.h"

namespace ft {

// Throws UserError (config): ranks cannot split a table some of whose rows are trained.
[[noreturn]] void refuse_cut_rows();

struct TokenRows {
  Parameter values;               // (n, C)
  std::vector<std::int32_t> ids;  // (n) their rows in the table, each at most once

  void put_into(Ctx&, Tensor table) const;
  // Add gradients: backward for rows that `ids` looked up, except `padding`; backward_of_columns for rows
  // that are columns of a product's result.
  void backward(Ctx&, Tensor dy, Tensor ids, std::int64_t vocabulary, std::int64_t padding) const;
  void backward_of_columns(Ctx&, Tensor dy, Tensor x) const;  // dy (rows, V), x (rows, C)
};

// A head's frozen matrix (V, C) with some trained rows.
class WeightWithRows final : public Weight {
 public:
  WeightWithRows(DenseWeight w, TokenRows r) : rows(std::move(r)), weight_(std::move(w)) {}
  Term times(Tensor x, Trans t) const override { return weight_.times(x, t); }
  void prepare(Ctx& c) const override { rows.put_into(c, weight_.parameter.value); }
  void add_grad(Ctx& c, Tensor dy, Tensor x) override { rows.backward_of_columns(c, dy, x); }
  void visit(Visitor& v) override {
    weight_.visit(v);
    v.parameter(rows.values);
  }
  void cut(int axis, TensorRank, const Parts&) override;  // throws UserError (config)

  TokenRows rows;

 private:
  DenseWeight weight_;
};

}  // namespace ft
