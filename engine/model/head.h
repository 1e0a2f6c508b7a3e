// Final norm, projection to the vocabulary, cap of the logits and loss, in chunks of rows: memory never holds
// all logits at once, and rows without a target are never computed. A reward model projects to a score
// instead.
#pragma once
#include <optional>
#include <string>

#include "engine/core/batch.h"
#include "engine/layers/dropout.h"
#include "engine/layers/linear.h"
#include "engine/layers/norm.h"
#include "engine/model/logit_loss.h"
#include "engine/model/row_loss.h"
#include "engine/ops/loss.h"

namespace ft {

struct Targets {
  Tensor rows;  // (targets) i32, rows of the hidden states
  Tensor ids;   // (targets) i32, the token that each row should predict
};

// scores: the projection has one row, and its result for a row is the score; target ids are ignored.
enum class HeadKind : std::uint8_t { vocabulary, scores };

struct Head {
  std::optional<Norm> norm;
  std::optional<Linear> narrow;  // to the width of the vocabulary's matrix, if that differs
  Linear lm_head;
  float scale = 1;  // factor of the normed states before the projection
  float cap = 0;    // of the logits; 0: none
  Dropout dropout;  // of the normed states
  HeadKind kind = HeadKind::vocabulary;

  // Rows of a chunk: as many as keep its logits near 16 M elements, on a GPU near 64 M.
  std::int64_t chunk_rows(Device) const;
  // Adds the losses of all targets to `loss` (1) f64.
  void forward(Ctx&, Tensor loss, Tensor x, const Targets&, float smoothing) const;
  // Like forward, and sets d to the gradient of loss_scale * loss with respect to x. Adds to the gradients of
  // its parameters.
  void forward_backward(Ctx&, Tensor loss, Tensor d, Tensor x, const Targets&, float loss_scale,
                        float smoothing) const;
  // Forward and forward_backward for another loss.
  void forward(Ctx&, LogitLoss&, Tensor loss, Tensor x, const Targets&) const;
  void forward_backward(Ctx&, LogitLoss&, Tensor loss, Tensor d, Tensor x, const Targets&,
                        float loss_scale) const;
  // Computes the values of all targets and passes them to the RowLoss.
  void forward(Ctx&, RowLoss&, Tensor x, const Targets&) const;
  // Like forward, and sets d to the gradient with respect to x under the RowLoss's weights. Adds to the
  // gradients of its parameters. Computes logits twice: weights are known only when the values of all rows
  // are.
  void forward_backward(Ctx&, RowLoss&, Tensor d, Tensor x, const Targets&) const;
  // Logits (rows, V) of the given rows, in the activations' dtype: all V columns, also if the rank has a part
  // of the vocabulary.
  void logits(Ctx&, Tensor y, Tensor x, Tensor rows) const;
  void visit(Visitor& v) {
    if (norm) norm->visit(v);
    if (narrow) narrow->visit(v);
    lm_head.visit(v);
  }

 private:
  struct Chunk {
    Tensor x, n, statistics;
    Tensor read, narrow_adapter;  // read: the input of lm_head
    Tensor logits, adapter;
  };
  void cross_entropy(Ctx&, op::CrossEntropy) const;
  void whole_logits(Ctx&, Tensor y, Tensor logits) const;
  RowValues values_of(Ctx&, const RowLoss&, Tensor x, const Targets&) const;
  void value_of(Ctx&, const Chunk&, const RowValues&, const Targets&, std::int64_t begin,
                std::int64_t end) const;
  Chunk project(Ctx&, Tensor x, const Tensor& all, std::int64_t begin, std::int64_t end,
                float temperature = 1) const;
  void back(Ctx&, Tensor d, const Chunk&, Tensor rows, std::int64_t begin) const;
  void drop(Ctx&, Tensor x, std::int64_t begin) const;
  std::string mask_of(std::int64_t begin) const {
    return (norm ? norm->name() : lm_head.name) + "." + std::to_string(begin);
  }
};

}  // namespace ft
