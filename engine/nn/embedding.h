// Token embedding: rows of a table, which a family may multiply, project to another width, and add the rows
// of a table of positions to, in this order; then dropout.
#pragma once
#include <optional>

#include "engine/nn/dropout.h"
#include "engine/nn/linear.h"

namespace ft {

struct Embedding {
  Parameter weight;                    // (V, w)
  float scale = 1;                     // of its rows
  std::optional<Linear> project;       // (C, w); none: w is C
  std::optional<Parameter> positions;  // (P, C)
  Dropout dropout;

  std::int64_t width() const { return project ? project->out : weight.shape[1]; }

  // y (ids, C). at: rows of the table of positions; empty without one.
  void forward(Ctx&, Tensor y, Tensor ids, Tensor at = {}) const;
  // Own gradients +=; changes dy.
  void backward(Ctx&, Tensor dy, Tensor ids, Tensor at = {}) const;
  void visit(Visitor&);

 private:
  void look_up(Ctx&, Tensor y, Tensor ids) const;
};

}  // namespace ft
