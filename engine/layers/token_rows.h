// Rows of a frozen table of embeddings that are trained as a parameter of their own (PEFT's trainable
// tokens). Before each use of the table they are put into it, so that whoever reads it needs to know nothing
// of them.
#pragma once
#include <vector>

#include "engine/layers/weight.h"

namespace ft {

// UserError (exit 2): ranks do not share a table of which rows are trained.
[[noreturn]] void refuse_cut_rows();

struct TokenRows {
  Parameter values;               // (n, C)
  std::vector<std::int32_t> ids;  // (n) their rows in the table, each once

  void put_into(Ctx&, Tensor table) const;
  // The gradient of rows that `ids` took from the table, that of `padding` left out, and of rows as columns
  // of a product's result.
  void backward(Ctx&, Tensor dy, Tensor ids, std::int64_t vocabulary, std::int64_t padding) const;
  void backward_of_columns(Ctx&, Tensor dy, Tensor x) const;  // dy (rows, V), x (rows, C)
};

// A frozen matrix (V, C) of a head with such rows.
class WeightWithRows final : public Weight {
 public:
  WeightWithRows(DenseWeight w, TokenRows r) : rows(std::move(r)), weight_(std::move(w)) {}
  Term times(Tensor x, Trans t) const override { return weight_.times(x, t); }
  void prepare(Ctx& c) const override { rows.put_into(c, weight_.parameter.value); }
  void add_grad(Ctx& c, Tensor dy, Tensor x) const override { rows.backward_of_columns(c, dy, x); }
  void visit(Visitor& v) override {
    weight_.visit(v);
    v.parameter(rows.values);
  }
  void cut(int axis, TensorRank, const Parts&) override;  // UserError: it cannot be

  TokenRows rows;

 private:
  DenseWeight weight_;
};

}  // namespace ft
