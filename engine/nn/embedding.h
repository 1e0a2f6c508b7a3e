// Token embedding: rows of a table.
#pragma once
#include "engine/nn/context.h"
#include "engine/nn/visitor.h"

namespace ft {

struct Embedding {
  Parameter weight;  // (V, C)

  void forward(Ctx& c, Tensor y, Tensor ids) const {
    c.ops.enter(weight.name);
    c.ops.run(op::Embedding{.y = y, .ids = ids, .table = weight.value});
  }
  void backward(Ctx& c, Tensor dy, Tensor ids) const {
    c.ops.enter(weight.name);
    if (weight.grad) c.ops.run(op::EmbeddingGrad{.dtable = weight.grad, .ids = ids, .dy = dy});
  }
  void visit(Visitor& v) { v.parameter(weight); }
};

}  // namespace ft
