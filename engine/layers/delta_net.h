// Gated delta net (Yang et al. 2024), as Qwen3-Next and Qwen3.5 have it: linear attention with a state of
// constant size for each head. Queries, keys and values pass a short convolution, the results a norm for each
// head and a gate.
#pragma once
#include "engine/layers/attention/positions.h"
#include "engine/layers/rms_norm.h"
#include "engine/layers/siblings.h"
#include "engine/ops/recurrent.h"

namespace ft {

struct DeltaNet {
  // in_proj makes queries, keys and values of all heads; gate_proj the gates of the results; beta_proj and
  // decay_proj a number for each value head. With `by_heads` gate_proj and decay_proj are empty: in_proj then
  // makes, for one key head after another, its query, its key, its values and their gates; and beta_proj
  // makes the numbers of beta_proj and of decay_proj.
  Linear in_proj, gate_proj, beta_proj, decay_proj, out_proj;
  bool by_heads = false;
  Parameter conv;            // (columns, 1, taps)
  Parameter a_log, dt_bias;  // (V) f32
  RmsNorm norm;              // of each head's results
  DeltaHeads heads;
  std::size_t layer = 0;  // number in a KvCache

  struct Saved {
    Tensor mixed;        // (rows, 2 K k + V v) input of the convolution
    Tensor gate;         // (rows, V v)
    Tensor beta, decay;  // (rows, V)
    Tensor o, rstd;      // (rows, V v), (rows V) f32
    Tensor u, out_u;     // of the adapters of the first four linears; of out_proj's adapter
  };
  std::string_view name() const { return parent_of(out_proj.name); }  // of the module
  // y = residual + net(x)
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const Positions&) const;
  // dx = the gradient of x (empty: not wanted); x may be empty when !reads_input().
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const Positions&) const;
  bool reads_input() const;
  void visit(Visitor&);
  // Throws UserError (config): ranks share neither the rows of a sequence nor the heads.
  void share_rows(std::int64_t ranks) const;
  void cut(TensorRank) const;
  // Takes memory of the sequences in the slots: the convolution's last inputs and the state.
  KvCache::Layer take_cache(Arena&, std::int64_t slots, DType) const;

  std::int64_t columns() const { return 2 * heads.key_columns() + heads.value_columns(); }
  std::int64_t taps() const { return conv.shape[2]; }

 private:
  // Inputs of the recurrence, or their gradients.
  struct Inputs {
    Tensor mixed, beta, decay;
  };
  void project(Ctx&, Saved&, Tensor x) const;
  void projected_back(Ctx&, Tensor dx, const Inputs& d, Tensor dgate, Tensor x, const Saved&) const;
  void recur(Ctx&, const Saved&, const Positions&) const;
  void recur_back(Ctx&, const Inputs& d, Tensor d_o, const Saved&, const Positions&) const;
  void run(Ctx&, Tensor o, const Inputs&, const Positions&) const;
  void run_back(Ctx&, const Inputs& d, Tensor d_o, const Inputs&, Tensor first) const;
  Tensor convolved(Ctx&, const Inputs&, Tensor first, const KvCache::Layer* memory, const CachedRows*) const;
  struct Gates {
    Tensor g, beta;
  };
  Gates gates(Ctx&, const Inputs&) const;
  Tensor room_to_work(Ctx&, std::int64_t rows, bool gradient) const;
  // gated = silu(gate) norm(o); normed keeps norm(o).
  void gated(Ctx&, Tensor gated, Tensor normed, const Saved&) const;
  Tensor upload_order(Ctx&, const std::vector<std::int32_t>&) const;
  std::vector<std::int32_t> order_of_columns() const;
  std::vector<std::int32_t> order_of_numbers() const;
};

}  // namespace ft
