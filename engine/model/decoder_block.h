// A block of a decoder: attention, or a net with a state, and an MLP, each a step of the residual stream, one
// after the other or in parallel. Families differ in the norms around the two and in how they build them.
#pragma once
#include "engine/layers/attention/attention.h"
#include "engine/layers/delta_net.h"
#include "engine/layers/mlp.h"
#include "engine/layers/moe.h"
#include "engine/layers/residual.h"

namespace ft {

struct DecoderBlock {
  Residual attended, fed;  // steps around attention and around the MLP
  SelfAttention attention;
  std::optional<DeltaNet> delta_net;  // replaces attention
  Mlp mlp;
  std::optional<Moe> moe;  // replaces mlp
  bool parallel = false;   // both read x: y = x + attention + mlp (GPT-J, GPT-NeoX)

  using Side = Positions;
  struct Saved {
    Residual::Saved attended, fed;
    Tensor h;  // (rows, C) between the two; not when parallel
    SelfAttention::Saved attention;
    DeltaNet::Saved delta_net;
    Mlp::Saved mlp;  // and, of a block that runs again, the statistics of its norm only from its backward on
    Moe::Saved moe;
  };
  Saved forward(Ctx&, Tensor y, Tensor x, const Side&, Keep) const;
  void backward(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
  void visit(Visitor&);
  void cut(TensorRank t) {
    moe ? moe->cut(t) : mlp.cut(t);
    delta_net ? delta_net->cut(t) : attention.cut(t);
    for (Residual* step : {&attended, &fed}) step->cut(t);
  }
  void take_apart(ParameterStore& store, std::vector<Parameter*>& parameters) {
    if (moe) moe->take_apart(store, parameters);
  }
  // Checks that so many ranks can share the rows of sequences. Throws UserError (config) if they cannot.
  void share_rows(std::int64_t ranks, SequenceSharing by) const {
    delta_net ? delta_net->share_rows(ranks) : attention.share_rows(ranks, by);
  }
  // Takes the block's memory of the sequences in a KvCache. key_columns: KV D.
  KvCache::Layer take_cache(Arena&, const KvCacheShape&, std::int64_t key_columns, DType) const;

 private:
  std::string_view mixer() const { return delta_net ? delta_net->name() : attention.name(); }
  bool mixer_reads_input() const { return delta_net ? delta_net->reads_input() : attention.reads_input(); }
  // d: the gradient of the sum that the MLP was added to. through: += the gradient of the MLP's input x;
  // empty: not wanted.
  void mlp_back(Ctx&, Tensor d, Tensor through, Tensor x, const Saved&, const Side&) const;
  void attention_back(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
};

}  // namespace ft
