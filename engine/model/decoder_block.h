// A block of a decoder: attention, or a net with a state, and an MLP, each a step of the residual stream, one
// after the other or in parallel. Families differ in the norms around the two steps and in the way they build
// them. A third step may mix in a per-layer input, and a stored number may multiply the result.
#pragma once
#include "engine/layers/attention/attention.h"
#include "engine/layers/delta_net.h"
#include "engine/layers/mlp_and_experts.h"
#include "engine/layers/per_layer_input.h"
#include "engine/layers/residual.h"

namespace ft {

struct DecoderBlock {
  Residual attended, fed;  // steps around attention and around the MLP
  SelfAttention attention;
  std::optional<DeltaNet> delta_net;  // replaces attention
  Mlp mlp;
  std::optional<Moe> moe;                        // replaces mlp
  std::optional<MlpAndExperts> mlp_and_experts;  // replaces mlp; `fed` has no norm before it
  bool parallel = false;                         // both read x: y = x + attention + mlp (GPT-J, GPT-NeoX)
  Residual mixed;                                // step around per_layer; has a norm after it
  std::optional<PerLayerInput> per_layer;
  std::optional<Parameter> factor;  // (1) f32, of the result; not trained

  // Throws InternalError for parts that a block does not compute together.
  void check() {
    if (!delta_net) attention.check();
    if (const Moe* const m = experts()) m->check();
  }

  using Side = Positions;
  struct Saved {
    Residual::Saved attended, fed;
    Tensor h;  // (rows, C) between the two; not when parallel
    SelfAttention::Saved attention;
    DeltaNet::Saved delta_net;
    Mlp::Saved mlp;  // and, of a block that runs again, the statistics of its norm only from its backward on
    Moe::Saved moe;
    MlpAndExperts::Saved mlp_and_experts;
    Tensor fed_to;  // (rows, C) between the MLP and per_layer
    Residual::Saved mixed;
    PerLayerInput::Saved per_layer;
  };
  Saved forward(Ctx&, Tensor y, Tensor x, const Side&, Keep) const;
  void backward(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
  void visit(Visitor&);
  void cut(TensorRank t) {
    experts() ? experts()->cut(t) : mlp.cut(t);
    delta_net ? delta_net->cut(t) : attention.cut(t);
    for (Residual* step : {&attended, &fed}) step->cut(t);
  }
  void take_apart(ParameterStore& store, std::vector<Parameter*>& parameters) {
    if (experts()) experts()->take_apart(store, parameters);
  }
  // The block's mixture of experts; null: none.
  Moe* experts() { return moe ? &*moe : mlp_and_experts ? &mlp_and_experts->moe : nullptr; }
  // Checks that so many ranks can share the rows of sequences. Throws UserError (config) if they cannot.
  void share_rows(std::int64_t ranks, SequenceSharing by) const {
    delta_net ? delta_net->share_rows(ranks) : attention.share_rows(ranks, by);
  }
  // Takes memory for the block's part of a KvCache; none for a block that borrows keys and values.
  KvCache::Layer take_cache(Arena&, const KvCacheShape&, DType) const;

 private:
  std::string_view mixer() const { return delta_net ? delta_net->name() : attention.name(); }
  std::string_view fed_name() const { return mlp_and_experts ? mlp_and_experts->name() : mlp.name(); }
  bool mixer_reads_input() const { return delta_net ? delta_net->reads_input() : attention.reads_input(); }
  // Ends the block after the MLP: y = the step around per_layer of s.fed_to, times the factor. Without
  // per_layer, y holds the sum after the MLP already.
  void finish(Ctx&, Tensor y, Saved&, const Side&) const;
  void finish_back(Ctx&, Tensor d, const Saved&, const Side&) const;
  // Multiplies all of x by the factor.
  void scale(Ctx&, Tensor x) const;
  // d: the gradient of the sum that the MLP was added to. through: += the gradient of the MLP's input x;
  // empty: not wanted.
  void mlp_back(Ctx&, Tensor d, Tensor through, Tensor x, const Saved&, const Side&) const;
  void attention_back(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
};

}  // namespace ft
