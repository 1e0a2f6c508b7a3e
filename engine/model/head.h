// Final norm, projection to the vocabulary, cap of the logits and loss, in chunks of rows: memory never holds
// all logits at once, and rows without a target are never computed. A model that classifies projects to
// scores instead, and one that embeds gives its normed states.
#pragma once
#include <optional>
#include <string>

#include "engine/core/batch.h"
#include "engine/layers/dropout.h"
#include "engine/layers/linear.h"
#include "engine/layers/norm.h"
#include "engine/model/loss.h"
#include "engine/ops/loss.h"

namespace ft {

struct Targets {
  Tensor rows;  // (targets) i32, rows of the hidden states
  Tensor ids;   // (targets) i32, the token that each row should predict
};

// scores: the projection has a row for each label, and its results are a target's values; target ids are
// ignored. states: there is no projection, and the normed states are a target's values.
enum class HeadKind : std::uint8_t { vocabulary, scores, states };

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
  // Values of a target that a RowLoss gets.
  std::int64_t values_each() const {
    return kind == HeadKind::vocabulary ? 1 : kind == HeadKind::scores ? lm_head.out : lm_head.in;
  }
  bool projects() const { return kind != HeadKind::states; }
  // Columns of logits().
  std::int64_t columns() const { return projects() ? lm_head.whole_out() : lm_head.in; }
  // Computes the loss of all targets.
  void forward(Ctx& c, Tensor x, const Targets& t, const Loss& loss) const { run(c, {}, x, t, loss); }
  // Like forward, and sets d to the gradient with respect to x. Adds to the gradients of its parameters.
  void forward_backward(Ctx& c, Tensor d, Tensor x, const Targets& t, const Loss& loss) const {
    run(c, d, x, t, loss);
  }
  // Logits (rows, V) of the given rows, in the activations' dtype: all V columns, also if the rank has a part
  // of the vocabulary.
  void logits(Ctx&, Tensor y, Tensor x, Tensor rows) const;
  void visit(Visitor& v) {
    if (norm) norm->visit(v);
    if (narrow) narrow->visit(v);
    if (projects()) lm_head.visit(v);
  }

 private:
  struct Chunk {
    Tensor x, n, statistics;
    Tensor read, narrow_adapter;  // read: the input of lm_head
    Tensor logits, adapter;
  };
  // d empty: there is no backward pass.
  void run(Ctx&, Tensor d, Tensor x, const Targets&, const Loss&) const;
  void compute(Ctx&, Tensor d, Tensor x, const Targets&, const CrossEntropy&) const;
  void compute(Ctx&, Tensor d, Tensor x, const Targets&, const LogitLosses&) const;
  void compute(Ctx&, Tensor d, Tensor x, const Targets&, RowLoss*) const;
  // Calls loss_of(LogitLoss::Chunk) for each chunk, and adds its losses to `sum`. scale: of the gradients.
  void add_up(Ctx&, Tensor sum, float scale, Tensor d, Tensor x, const Targets&, const auto& loss_of) const;
  void cross_entropy(Ctx&, op::CrossEntropy) const;
  static void add_groups(Ctx&, const CrossEntropy&, Tensor losses, std::int64_t begin);
  void whole_logits(Ctx&, Tensor y, Tensor logits) const;
  RowValues values_of(Ctx&, const RowLoss&, Tensor x, const Targets&) const;
  void value_of(Ctx&, const Chunk&, const RowValues&, const Targets&, std::int64_t begin,
                std::int64_t end) const;
  // Calls f(begin, end) for each chunk of `rows` rows; f's temporary and saved tensors are then freed.
  void each_chunk(Ctx&, std::int64_t rows, const auto& f) const;
  Chunk project(Ctx&, Tensor x, const Tensor& all, std::int64_t begin, std::int64_t end,
                float temperature = 1) const;
  void back(Ctx&, Tensor d, const Chunk&, Tensor rows, std::int64_t begin) const;
  void drop(Ctx&, Tensor x, std::int64_t begin) const;
  std::string mask_of(std::int64_t begin) const {
    return (norm ? norm->name() : lm_head.name) + "." + std::to_string(begin);
  }
};

}  // namespace ft
