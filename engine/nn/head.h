// Final norm, projection to the vocabulary and loss, in chunks of rows: all logits are never there at once,
// and rows without a target are never computed.
#pragma once
#include "engine/core/batch.h"
#include "engine/nn/linear.h"
#include "engine/nn/rms_norm.h"

namespace ft {

struct Targets {
  Tensor rows;  // (targets) i32, rows of the hidden states
  Tensor ids;   // (targets) i32, the token each should predict
};

struct Head {
  RmsNorm norm;
  Linear lm_head;

  // Rows of a chunk: what keeps its logits near 16 M elements.
  std::int64_t chunk_rows() const;
  // Adds the losses of all targets to `loss` (1) f64.
  void forward(Ctx&, Tensor loss, Tensor x, const Targets&, float smoothing) const;
  // The same, and d = the gradient of scale * loss with respect to x; own gradients +=.
  void forward_backward(Ctx&, Tensor loss, Tensor d, Tensor x, const Targets&, float scale,
                        float smoothing) const;
  // Logits (rows, V) of the given rows, in the activations' dtype.
  void logits(Ctx&, Tensor y, Tensor x, Tensor rows) const;
  void visit(Visitor& v) {
    norm.visit(v);
    lm_head.visit(v);
  }

 private:
  struct Chunk {
    Tensor x, n, rstd, logits, adapter;
  };
  Chunk project(Ctx&, Tensor x, Tensor rows) const;
};

}  // namespace ft
