// An addition to the rows that an embedding looks up, before the family's scale.
#pragma once
#include "engine/layers/visitor.h"
#include "engine/pass/context.h"

namespace ft {

class EmbeddingAdapter {
 public:
  virtual ~EmbeddingAdapter() = default;
  // y (ids, w) += the addition.
  virtual void add(Ctx&, Tensor y, Tensor ids) const = 0;
  // Adds to the gradients of its parameters. The row `padding` gets no gradient.
  virtual void backward(Ctx&, Tensor dy, Tensor ids, std::int64_t padding) const = 0;
  virtual void visit(Visitor&) = 0;
};

}  // namespace ft
