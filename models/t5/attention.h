// T5's attention: no biases, scores not scaled, a bias by distance in self-attention; the decoder's also over
// the encoder's states (cross-attention).
#pragma once
#include "engine/layers/kv_cache.h"
#include "engine/layers/siblings.h"

namespace ft::t5 {

// Over what, and how.
struct Over {
  Tensor memory;  // (key rows, C): what the keys are made of
  // Its gradient, f32 +=; empty: self-attention, or not wanted. With some of the heads, a part of it.
  Tensor d_memory;
  Mask mask;
  Scores scores;
  Tensor dbias;                   // see op::AttentionGrad
  Communicator* parts = nullptr;  // ranks that have other rows, with which heads are exchanged; null: none
  RowNumbers memory_rows = {};    // of cross-attention's keys, as Ctx::numbers

  bool cross() const { return !mask.key_starts.empty(); }
};

struct Attention {
  Linear q, k, v, o;
  Heads heads{};
  std::int64_t first_head = 0, all_heads = 0;  // where the rank has some of them

  struct Saved {
    Tensor q, k, v;  // (rows, H D), (key rows, H D) twice
    Tensor y, lse;   // attended (rows, H D); (H, rows) f32
    // Where ranks share the rows: y of all rows by this rank's heads. q, k, v and lse are then of those.
    Tensor together;
    Tensor u, memory_u, o_u;  // of the adapters of q, k and v, or of q; in cross-attention of k and v; of o
  };
  // y = residual + attention(x)
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const Over&) const;
  // dx = the gradient of x (empty: not wanted); with d_memory, that of the keys' input goes there, else to dx
  // where x is the memory, else nowhere. x may be empty when !reads_input().
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const Over&) const;
  bool reads_input() const { return q.reads_input() || k.reads_input() || v.reads_input(); }

  // Generation: y = residual + attention(x) over cached keys. rows (i32): where the new tokens' keys and
  // values are written first; empty: those of the memory are in the cache already.
  void extend(Ctx&, Tensor y, Tensor x, Tensor residual, const KvCache::Layer&, Tensor rows, const KeyRanges&,
              Tensor bias) const;
  // Keeps keys and values of the memory, in these rows of the cache.
  void keep(Ctx&, Tensor memory, const KvCache::Layer&, Tensor rows) const;

  void visit(Visitor&);
  // Leaves the rank's heads. UserError (exit 2) where they do not divide.
  void cut(TensorRank);
  // That so many ranks are to share the rows. UserError (exit 2) where they cannot share the heads.
  void share_rows(std::int64_t ranks) const;

 private:
  void attend(Ctx&, Saved&, const Over&) const;
  void attend_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&, const Over&) const;
  void attend_together(Ctx&, Saved&, const Over&) const;
  void attend_together_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&,
                            const Over&) const;
};

}  // namespace ft::t5
