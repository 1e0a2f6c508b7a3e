// The feed-forward layer: down(f(gate(x)) * up(x)) (Shazeer, "GLU variants improve transformer", 2020), or
// without an up down(f(gate(x))). One linear may make gate and up, side by side.
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
  Linear gate_proj;  // twice as wide as what down_proj reads: up too
  std::optional<Linear> up_proj;
  Linear down_proj;
  Activation activation = Activation::silu;
  Dropout dropout;  // of what down_proj reads

  // A part of the rows, and what backward needs of all of them. If nothing is kept, only one piece, the
  // widest tensors of a model, exists at a time.
  struct Piece {
    Tensor gate, up;   // (rows, F)
    Tensor act;        // (rows, F) what down_proj reads; empty: it is made again
    Tensor both;       // (rows, 2 F) where one linear makes them, which are parts of it
    Tensor u, down_u;  // of the adapters of gate and up, and of down
  };
  using Saved = std::vector<Piece>;
  // The most rows of a piece. Fewer leave a GPU's multiprocessors idle at the end of a product, and each
  // piece makes weights in 4 bits dense again.
  static constexpr std::int64_t most_rows(Device d) { return d.kind == Device::Kind::cpu ? 4096 : 8192; }

  // y = residual + mlp(x).
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, Keep) const;
  // dx = the gradient of x (empty: not wanted). Overwrites what is saved; recomputes from x what is not.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&) const;
  bool reads_input() const { return gate_proj.reads_input() || (up_proj && up_proj->reads_input()); }
  void visit(Visitor&);
  // Leaves the rank's part of the width between. UserError (exit 2) where that is not possible.
  void cut(TensorRank);

 private:
  bool fused() const { return !up_proj && gate_proj.out == 2 * down_proj.in; }
  std::int64_t rows_at_once(const Ctx&, std::int64_t rows) const;
  void each_piece(const Ctx&, std::int64_t rows,
                  const std::function<void(std::int64_t, std::int64_t)>&) const;
  void each_run(const Ctx&, std::int64_t rows, const auto& f) const;
  Piece widen(Ctx&, Tensor x) const;       // gate, up and u
  Tensor inner(Ctx&, const Piece&) const;  // what down_proj reads
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, Piece&) const;
};

}  // namespace ft
