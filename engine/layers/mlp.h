// The feed-forward layer: down(f(gate(x)) * up(x)) (Shazeer, "GLU variants improve transformer", 2020), or
// down(f(gate(x))) if it has no up. One linear may make gate and up, next to each other.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "engine/layers/dropout.h"
#include "engine/layers/keep.h"
#include "engine/layers/siblings.h"
#include "engine/ops/elementwise.h"

namespace ft {

struct Mlp {
  Linear gate_proj;  // twice as wide as down_proj's input if it makes up too
  std::optional<Linear> up_proj;
  Linear down_proj;
  Activation activation = Activation::silu;
  Dropout dropout;  // of down_proj's input

  // Tensors of a range of rows that backward needs. If nothing is kept, only one piece, with the widest
  // tensors of a model, exists at a time.
  struct Piece {
    Tensor gate, up;   // (rows, F)
    Tensor act;        // (rows, F) down_proj's input; empty: recomputed
    Tensor both;       // (rows, 2 F) if one linear makes gate and up, which are then views of it
    Tensor u, down_u;  // of the adapters of gate and up; of down's adapter
  };
  using Saved = std::vector<Piece>;
  // The most rows of a piece. Shorter pieces leave a GPU's multiprocessors idle at the end of a product, and
  // each piece decodes 4-bit weights again.
  static constexpr std::int64_t most_rows(Device d) { return d.kind == Device::Kind::cpu ? 4096 : 8192; }

  std::string_view name() const { return parent_of(down_proj.name); }  // of the module
  // y = residual + mlp(x).
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, Keep) const;
  // dx = the gradient of x (empty: not wanted). Overwrites the saved tensors; recomputes from x those that
  // were not kept.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&) const;
  bool reads_input() const { return gate_proj.reads_input() || (up_proj && up_proj->reads_input()); }
  void visit(Visitor&);
  // Keeps only the rank's part of the inner width. Throws UserError (config) if it cannot be split.
  void cut(TensorRank);

 private:
  bool fused() const { return !up_proj && gate_proj.out == 2 * down_proj.in; }
  std::int64_t rows_at_once(const Ctx&, std::int64_t rows) const;
  void each_piece(const Ctx&, std::int64_t rows,
                  const std::function<void(std::int64_t, std::int64_t)>&) const;
  void each_run(const Ctx&, std::int64_t rows, const auto& f) const;
  Piece widen(Ctx&, Tensor x) const;       // gate, up and u
  Tensor inner(Ctx&, const Piece&) const;  // down_proj's input
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, Piece&) const;
};

}  // namespace ft
