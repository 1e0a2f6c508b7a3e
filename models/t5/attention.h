// T5's attention: no biases, unscaled scores, a bias by distance in self-attention. The decoder also has
// cross-attention over the encoder's states.
#pragma once
#include "engine/layers/attention/kv_cache.h"
#include "engine/layers/siblings.h"

namespace ft::t5 {

// Inputs of attention besides the queries: keys, mask, bias, and the ranks that share the rows.
struct Over {
  Tensor memory;  // (key rows, C): the input of keys and values
  // Gradient of memory, f32 +=; empty: self-attention, or not wanted. A rank with some of the heads adds its
  // part of the sum.
  Tensor d_memory;
  Mask mask;
  Scores scores;
  Tensor dbias;                   // see op::AttentionGrad
  Communicator* parts = nullptr;  // ranks that hold other rows and swap heads for rows; null: none
  RowNumbers memory_rows = {};    // of cross-attention's keys, see Ctx::numbers

  bool cross() const { return !mask.key_starts.empty(); }
};

struct Attention {
  Linear q, k, v, o;
  Heads heads{};
  std::int64_t first_head = 0, all_heads = 0;  // set if the rank has some of the heads

  struct Saved {
    Tensor q, k, v;  // (rows, H D), (key rows, H D) twice
    Tensor y, lse;   // attended (rows, H D); (H, rows) f32
    // With shared rows: y of all rows, for this rank's heads. q, k, v and lse then also hold all rows for
    // these heads.
    Tensor together;
    // Inner results of the adapters: u for q, k and v (cross-attention: q), memory_u for k and v, o_u for o.
    Tensor u, memory_u, o_u;
  };
  // y = residual + attention(x)
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const Over&) const;
  // dx = the gradient of x (empty: not wanted). The gradient of the keys' input goes to d_memory if it is
  // set, else to dx in self-attention, else nowhere. x may be empty when !reads_input().
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const Over&) const;
  bool reads_input() const { return q.reads_input() || k.reads_input() || v.reads_input(); }

  // Generation: y = residual + attention(x) over cached keys. rows (i32): cache rows where the new tokens'
  // keys and values are written first; empty: cross-attention, whose keys and values are cached already.
  void extend(Ctx&, Tensor y, Tensor x, Tensor residual, const KvCache::Layer&, Tensor rows, const KeyRanges&,
              Tensor bias) const;
  // Writes the memory's keys and values to these rows of the cache.
  void keep(Ctx&, Tensor memory, const KvCache::Layer&, Tensor rows) const;

  void visit(Visitor&);
  // Keeps only the rank's heads. Throws UserError (config) if the ranks do not divide the heads.
  void cut(TensorRank);
  // Throws UserError (config) if so many ranks, which will share the rows, cannot divide the heads.
  void share_rows(std::int64_t ranks) const;

 private:
  void attend(Ctx&, Saved&, const Over&) const;
  void attend_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&, const Over&) const;
  void attend_together(Ctx&, Saved&, const Over&) const;
  void attend_together_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&,
                            const Over&) const;
};

}  // namespace ft::t5
