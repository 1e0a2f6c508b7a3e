// Inputs of p columns for each layer of a decoder, in addition to the stream (Gemma 4's small models):
//   (norm(C^-1/2 projection(x)) + sqrt(p) table[id]) / sqrt(2)
// for the embedded tokens x, with the norm over each layer's columns. A unit of the store.
#pragma once
#include "engine/layers/embedding.h"
#include "engine/layers/norm.h"
#include "engine/zero/parameter_store.h"

namespace ft {

class PerLayerInputs {
 public:
  Embedding table;    // (V, layers p)
  Linear projection;  // (layers p, C)
  Norm norm;          // (p)

  struct Saved {
    Tensor y;                // (rows, layers p)
    Tensor raw, statistics;  // the norm's input and statistics
    Tensor u;                // of the projection's adapter
  };
  void visit(Visitor&);
  void add_unit(ParameterStore&);
  int unit() const { return unit_; }
  std::int64_t columns() const { return projection.out; }

  // Takes memory from c.saved. x (ids, C).
  Saved forward(Ctx&, ParameterStore&, Tensor x, Tensor ids) const;
  // dx += the gradient of x (empty: not wanted), given d, the gradient of y. Adds to the parameters'
  // gradients; changes d.
  void backward(Ctx&, ParameterStore&, Tensor dx, Tensor d, Tensor x, Tensor ids, const Saved&) const;

 private:
  std::string name() const;
  // View with a row for each layer.
  Tensor by_layer(const Tensor& t) const { return t.view({t.numel() / norm.width(), norm.width()}); }
  float factor() const;  // of the projection

  int unit_ = -1;
};

}  // namespace ft
