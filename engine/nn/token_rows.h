// Rows of a frozen table of embeddings that are trained as a parameter of their own (PEFT's trainable
// tokens). Before each use of the table they are put into it, so that whoever reads it needs to know nothing
// of them.
#pragma once
#include <vector>

#include "engine/nn/context.h"
#include "engine/nn/visitor.h"

namespace ft {

struct TokenRows {
  Parameter values;               // (n, C)
  std::vector<std::int32_t> ids;  // (n) their rows in the table, each once

  void put_into(Ctx&, Tensor table) const;
  // The gradient of rows that `ids` took from the table, that of `padding` left out, and of rows as columns
  // of a product's result.
  void backward(Ctx&, Tensor dy, Tensor ids, std::int64_t vocabulary, std::int64_t padding) const;
  void backward_of_columns(Ctx&, Tensor dy, Tensor x) const;  // dy (rows, V), x (rows, C)
};

}  // namespace ft
