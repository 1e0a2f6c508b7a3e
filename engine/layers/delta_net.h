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
    // If ranks share the rows, mixed, beta and decay have all rows, with this rank's heads (HeadPart).
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
  // Checks that so many ranks can share the rows of sequences. Throws UserError (config) if the key heads do
  // not divide.
  void share_rows(std::int64_t ranks) const;
  // Keeps only this rank's key heads, with their value heads. Throws UserError (config) if they do not
  // divide.
  void cut(TensorRank);
  // Takes memory of the sequences in the slots: the convolution's last inputs and the state.
  KvCache::Layer take_cache(Arena&, std::int64_t slots, DType) const;

  std::int64_t columns() const { return 2 * heads.key_columns() + heads.value_columns(); }
  std::int64_t taps() const { return conv.shape[2]; }

 private:
  // Inputs of the recurrence, or their gradients.
  struct Inputs {
    Tensor mixed, beta, decay;
  };
  // The heads that a rank computes the recurrence of: the part `number` of `count` equal parts of the key
  // heads, with their value heads and their channels of the convolution.
  struct HeadPart {
    std::int64_t number = 0, count = 1;
    DeltaHeads of(const DeltaHeads& h) const {
      return {h.keys / count, h.values / count, h.key_width, h.value_width};
    }
    // Returns this part of a tensor with a number for each value head.
    Tensor of(const Tensor& t) const {
      return t ? t.elements(t.numel() / count * number, t.numel() / count) : t;
    }
  };
  static HeadPart part_of(const Positions&);
  // Writes mixed, beta and decay into tensors from `room`.
  void project(Ctx&, Saved&, Tensor x, Arena& room) const;
  void projected_back(Ctx&, Tensor dx, const Inputs& d, Tensor dgate, Tensor x, const Saved&) const;
  void recur(Ctx&, Saved&, const Positions&) const;
  void recur_back(Ctx&, const Inputs& d, Tensor d_o, const Saved&, const Positions&) const;
  // Exchange rows for heads among the ranks that share the rows, and compute on all rows.
  void recur_together(Ctx&, Saved&, const Positions&) const;
  void recur_together_back(Ctx&, const Inputs& d, Tensor d_o, const Saved&, const Positions&) const;
  // The parts of a tensor with the columns of mixed, beta and decay, side by side.
  Inputs side_by_side(const Tensor& all, const DeltaHeads&) const;
  void run(Ctx&, Tensor o, const Inputs&, const Positions&) const;
  void run_back(Ctx&, const Inputs& d, Tensor d_o, const Inputs&, const Positions&) const;
  // Calls f(first column, end, first channel) for each run of a part's columns whose channels of the
  // convolution lie one after another.
  void each_run(const HeadPart&, const auto& f) const;
  Tensor convolved(Ctx&, const Inputs&, const HeadPart&, const Positions&) const;
  void convolved_back(Ctx&, Tensor dx, Tensor dy, Tensor x, const HeadPart&, Tensor first) const;
  Tensor taps_of(const Tensor& all, std::int64_t channel, std::int64_t count) const;
  struct Gates {
    Tensor g, beta;
  };
  Gates gates(Ctx&, const Inputs&, const HeadPart&) const;
  static Tensor room_to_work(Ctx&, const DeltaHeads&, std::int64_t rows, bool gradient);
  // gated = silu(gate) norm(o); normed keeps norm(o).
  void gated(Ctx&, Tensor gated, Tensor normed, const Saved&) const;
  Tensor upload_order(Ctx&, const std::vector<std::int32_t>&) const;
  std::vector<std::int32_t> order_of_columns() const;
  std::vector<std::int32_t> order_of_numbers() const;
};

}  // namespace ft
