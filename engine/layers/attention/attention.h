// Causal self-attention with grouped queries (Ainslie et al. 2023); optionally biases, norms of the queries
// and keys (Qwen3), a sliding window, a cap of the scores (Gemma 2), dropout of the probabilities, one linear
// that makes queries, keys and values, gates of the results (Qwen3-Next), low-rank queries, keys and values
// (DeepSeek), sinks (gpt-oss), norms of the values, values equal to the keys, and keys and values of an
// earlier layer (Gemma 4).
#pragma once
#include <optional>

#include "engine/layers/attention/latent.h"
#include "engine/layers/attention/positions.h"
#include "engine/layers/attention/value_norm.h"
#include "engine/layers/dropout.h"
#include "engine/layers/norm.h"
#include "engine/layers/siblings.h"
#include "engine/parallel/ring_attention.h"

namespace ft {

struct SelfAttention {
  Linear q_proj, k_proj, v_proj, o_proj;  // k_proj and v_proj empty: q_proj makes all three
  // Layout of a fused q_proj's output: true: query, key and value of one head after another; false: all
  // queries, then all keys, then all values.
  bool by_heads = false;
  // True: q_proj makes for one head after another its query and its gate. The results are multiplied by
  // sigmoid(gate) before o_proj.
  bool gated = false;
  // Makes queries, keys and values in place of the three linears; o_proj may read narrower heads.
  std::optional<LatentProjections> latent;
  // norm heads one by one or full rows, by their width
  std::optional<Norm> q_norm, k_norm;
  std::optional<ValueNorm> v_norm;
  // True: values are k_proj's results before norm and rotation, and v_proj is empty. Needs k_norm and v_norm.
  bool values_are_keys = false;
  // Numbers in Positions::lent. lends: the layer writes its keys and values there, for later layers. borrows:
  // it uses an earlier layer's there, and k_proj and v_proj are empty.
  std::optional<std::size_t> lends, borrows;
  std::optional<Parameter> sinks;  // (H): a score of each head without a value; see op::AttentionSinks
  Heads heads{};
  std::int64_t first_head = 0, all_heads = 0;  // among the query heads, where the rank has some of them
  float scale = 1;                             // of the scores
  float cap = 0;                               // of the scaled scores; 0: none
  Dropout dropout;                             // of the probabilities
  Rotation rotation = Rotation::usual;
  std::int64_t window = 0;  // 0: none
  std::size_t layer = 0;    // number in a KvCache; a borrower has its lender's

  struct Saved {
    Tensor q, k, v;                                   // (rows, H D), (rows, KV D) twice; q and k rotated
    Tensor q_raw, k_raw, v_raw;                       // before norm and rotation; only with norms
    Tensor q_statistics, k_statistics, v_statistics;  // of the norms
    Tensor gate;                                      // (rows, H D); only if gated
    LatentProjections::Saved low;                     // only if latent
    Tensor y, lse;                                    // attended (rows, H D); (H, rows) f32
    // Only where ranks exchange rows for heads: y of all ranks' rows for this rank's heads. q, k, v and lse
    // then have these rows and heads too. In a ring, lse has the shape that RingAttention describes.
    Tensor together;
    Tensor u, o_u;  // of the adapters of q, k and v; of o's adapter
  };
  std::string_view name() const { return parent_of(o_proj.name); }  // of the module
  // Throws InternalError for parts that this layer does not compute together.
  void check() const;
  // y = residual + attention(x)
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const Positions&) const;
  // dx = the gradient of x (empty: not wanted); x may be empty when !reads_input().
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const Positions&) const;
  bool reads_input() const;
  void visit(Visitor&);
  // Keeps only this rank's heads. Throws UserError (config) if they cannot be split.
  void cut(TensorRank);
  // Columns of the keys, and of the values.
  std::int64_t key_columns() const { return heads.key_value * heads.width; }
  // Checks that so many ranks can share the rows of sequences. Throws UserError (config) if the heads do not
  // divide, or in a ring if attention has dropout.
  void share_rows(std::int64_t ranks, SequenceSharing) const;

 private:
  bool fused() const { return !latent && !k_proj.weight && !borrows; }
  // The linear whose name seeds dropout.
  const Linear& queries() const { return latent ? latent->q_proj : q_proj; }
  // Returns f(siblings) for the linears that the layer has, with a tensor for each.
  auto with_linears(Tensor q, Tensor k, Tensor v, const auto& f) const;
  Scores scores(const Ctx&, std::int64_t from_head = 0) const;  // from_head: number of the first of the heads
  // Writes q, k and v into tensors from `room`, or lent k and v into the loan. `latent` also rotates q and k.
  void project(Ctx&, Saved&, Tensor x, const Positions&, Arena& room) const;
  void norm(Ctx&, const Saved&) const;
  // Replaces gradients of the norms' results by gradients of their inputs. With values_are_keys, adds the
  // values' gradient to dk.
  void norm_back(Ctx&, Tensor& dq, Tensor& dk, Tensor& dv, const Saved&) const;
  void settle_loans(Ctx&, Tensor dk, Tensor dv, const Positions&) const;
  void projected_back(Ctx&, Tensor dx, Tensor dq, Tensor dk, Tensor dv, Tensor all, Tensor x,
                      const Saved&) const;
  // A part of each head's 2 D columns in q_proj's output: queries (0) or gates (1).
  Tensor half_of_heads(const Tensor& wide, std::int64_t which) const;
  void gate(Ctx&, Tensor y, const Saved&) const;
  // Add the sinks, or their gradient, of the heads in lse. from: number of the first of these heads.
  void add_sinks(Ctx&, Tensor y, Tensor lse, std::int64_t from = 0) const;
  void add_sinks_grad(Ctx&, Tensor dy, Tensor y, Tensor lse, std::int64_t from = 0) const;
  Mask mask(const Positions& p) const {
    return {p.shared ? p.shared.starts : p.starts, true, window, {}, p.blocks};
  }
  void attend(Ctx&, const Saved&, const Positions&) const;
  void attend_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&, const Positions&) const;
  void attend_together(Ctx&, Saved&, const Positions&) const;
  void attend_together_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&,
                            const Positions&) const;
  // Attends alone, or among ranks that share the rows, in the way that Positions::sharing names.
  void attend_any(Ctx&, Saved&, const Positions&) const;
  void attend_any_back(Ctx&, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved&,
                       const Positions&) const;
  RingAttention ring(Ctx&, const Positions&) const;
};

}  // namespace ft
