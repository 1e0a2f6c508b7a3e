// Causal self-attention with grouped queries (Ainslie et al. 2023); optionally biases, norms of the queries
// and keys (Qwen3), and a sliding window.
#pragma once
#include <optional>

#include "engine/nn/norm.h"
#include "engine/nn/positions.h"
#include "engine/nn/siblings.h"

namespace ft {

struct SelfAttention {
  Linear q_proj, k_proj, v_proj, o_proj;
  std::optional<Norm> q_norm, k_norm;  // over as many values of a row at a time as they are wide
  Heads heads{};
  float scale = 1;          // of the scores
  std::int64_t window = 0;  // 0: none
  std::size_t layer = 0;    // in a KvCache

  struct Saved {
    Tensor q, k, v;                     // (rows, H D), (rows, KV D) twice; q and k rotated
    Tensor q_raw, k_raw;                // before norm and rotation; only with norms
    Tensor q_statistics, k_statistics;  // of the norms
    Tensor y, lse;                      // attended (rows, H D); (H, rows) f32
    Tensor u, o_u;                      // of the adapters of q, k and v, and of o
  };
  // y = residual + attention(x)
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const Positions&) const;
  // dx = the gradient of x (empty: not wanted); x may be empty when !reads_input().
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const Positions&) const;
  bool reads_input() const { return q_proj.reads_input() || k_proj.reads_input() || v_proj.reads_input(); }
  void visit(Visitor&);

 private:
  Mask mask(const Positions& p) const { return {p.starts, true, window, {}, p.blocks}; }
  void attend(Ctx&, const Saved&, const Positions&) const;
};

}  // namespace ft
