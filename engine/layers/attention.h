// Causal self-attention with grouped queries (Ainslie et al. 2023); optionally biases, norms of the queries
// and keys (Qwen3), a sliding window, a cap of the scores (Gemma 2), dropout of the probabilities, and one
// linear that makes queries, keys and values.
#pragma once
#include <optional>

#include "engine/layers/dropout.h"
#include "engine/layers/norm.h"
#include "engine/layers/positions.h"
#include "engine/layers/siblings.h"
#include "engine/parallel/ring_attention.h"

namespace ft {

struct SelfAttention {
  Linear q_proj, k_proj, v_proj, o_proj;  // k_proj and v_proj empty: q_proj makes all three
  // Whether q_proj then makes a query, key and value head after head; else all queries, then the others.
  bool by_heads = false;
  std::optional<Norm> q_norm, k_norm;  // over as many values of a row at a time as they are wide
  Heads heads{};
  std::int64_t first_head = 0, all_heads = 0;  // of the queries', where the rank has some of them
  float scale = 1;                             // of the scores
  float cap = 0;                               // of the scaled scores; 0: none
  Dropout dropout;                             // of the probabilities
  Rotation rotation = Rotation::usual;
  std::int64_t window = 0;  // 0: none
  std::size_t layer = 0;    // in a KvCache

  struct Saved {
    Tensor q, k, v;                     // (rows, H D), (rows, KV D) twice; q and k rotated
    Tensor q_raw, k_raw;                // before norm and rotation; only with norms
    Tensor q_statistics, k_statistics;  // of the norms
    Tensor y, lse;                      // attended (rows, H D); (H, rows) f32
    // Where ranks exchange rows for heads: y of all rows by this rank's heads. q, k, v and lse are then of
    // those. In a ring lse is that of RingAttention.
    Tensor together;
    Tensor u, o_u;  // of the adapters of q, k and v, and of o
  };
  // y = residual + attention(x)
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const Positions&) const;
  // dx = the gradient of x (empty: not wanted); x may be empty when !reads_input().
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const Positions&) const;
  bool reads_input() const {
    return q_proj.reads_input() || (!fused() && (k_proj.reads_input() || v_proj.reads_input()));
  }
  void visit(Visitor&);
  // Leaves the rank's heads. UserError (exit 2) where that is not possible.
  void cut(TensorRank);
  // That so many ranks are to share the rows of sequences. UserError(Exit::config) where they cannot share
  // the heads, or something else that it has.
  void share_rows(std::int64_t ranks, SequenceSharing) const;

 private:
  bool fused() const { return !k_proj.weight; }
  Scores scores(const Ctx&, std::int64_t from_head = 0) const;  // for some heads: the first of them
  // q, k and v are put into `room`.
  void project(Ctx&, Saved&, Tensor x, Arena& room) const;
  void projected_back(Ctx&, Tensor dx, Tensor dq, Tensor dk, Tensor dv, Tensor all, Tensor x,
                      const Saved&) const;
  Mask mask(const Positions& p) const {
    return {p.shared ? p.shared.starts : p.starts, true, window, {}, p.blocks};
  }
  void attend(Ctx&, const Saved&, const Positions&) const;
  void attend_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&, const Positions&) const;
  void attend_together(Ctx&, Saved&, const Positions&) const;
  void attend_together_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&,
                            const Positions&) const;
  // Among ranks that share the rows, each in its way, or alone.
  void attend_any(Ctx&, Saved&, const Positions&) const;
  void attend_any_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&,
                       const Positions&) const;
  RingAttention ring(Ctx&, const Positions&) const;
};

}  // namespace ft
