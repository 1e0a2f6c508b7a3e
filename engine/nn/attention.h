// Causal self-attention with grouped queries (Ainslie et al. 2023) and rotary positions (Su et al. 2021);
// optionally biases, norms of the queries and keys (Qwen3), and a sliding window.
#pragma once
#include <optional>

#include "engine/nn/kv_cache.h"
#include "engine/nn/rms_norm.h"
#include "engine/nn/siblings.h"

namespace ft {

// What a whole stack shares in one pass.
struct Positions {
  Tensor positions;                      // (rows) i32
  Tensor cos, sin;                       // (positions, D / 2) f32
  std::span<const std::int32_t> starts;  // of the sequences
  const CachedRows* cached = nullptr;    // generation: where keys and values are kept
};

struct SelfAttention {
  Linear q_proj, k_proj, v_proj, o_proj;
  std::optional<RmsNorm> q_norm, k_norm;  // over each head's D values
  Heads heads{};
  float scale = 1;          // of the scores
  std::int64_t window = 0;  // 0: none
  std::size_t layer = 0;    // in a KvCache

  struct Saved {
    Tensor q, k, v;                       // (rows, H D), (rows, KV D) twice; q and k rotated
    Tensor q_raw, k_raw, q_rstd, k_rstd;  // before norm and rotation; only with norms
    Tensor y, lse;                        // attended (rows, H D); (H, rows) f32
    Tensor u, o_u;                        // of the adapters of q, k and v, and of o
  };
  // y = residual + attention(x)
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const Positions&) const;
  // dx = the gradient of x (empty: not wanted); x may be empty when !reads_input().
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const Positions&) const;
  bool reads_input() const { return q_proj.reads_input() || k_proj.reads_input() || v_proj.reads_input(); }
  void visit(Visitor&);

 private:
  Mask mask(const Positions& p) const { return {p.starts, true, window}; }
  void attend(Ctx&, const Saved&, const Positions&) const;
  void rotate(Ctx&, Tensor, const Positions&, float sign) const;
};

}  // namespace ft
