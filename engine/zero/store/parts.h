// Parts of a ParameterStore that checkpoints and results hold: masters, in f32, states, and the gradients
// that a delayed step will apply. Each rank saves its part, so that the parts of all ranks are everything
// once, and restores the tensors that it holds.
#pragma once
#include <functional>

#include "engine/zero/host_pieces.h"
#include "engine/zero/store/stepping.h"

namespace ft::zero {

class Parts {
 public:
  Parts(Ops& ops, const Layout& layout, Stepping& stepping, GradientHome& gradients)
      : ops_(ops), layout_(layout), stepping_(stepping), gradients_(gradients) {}

  // A slice's tensors pass through host memory in the pieces that `visit` gets.
  void each_part(const std::function<void(const Slice&, HostPieces&)>& visit, bool gradients = false);
  // Visits the states that differ between ranks (StateSpec::differs), in pieces of host memory that are valid
  // until the next call. `first`: index, in the saved tensor, of the piece's first element, as in ReadState.
  using VisitState =
      std::function<void(const Parameter&, const StateSpec&, const Tensor& host, std::int64_t first)>;
  void each_differing(const VisitState& visit);

  // Returns the most bytes of all tensors that each_part and each_differing visit, on any rank, if each
  // tensor takes a multiple of `align` bytes.
  std::int64_t most_bytes(bool gradients, std::int64_t align) const;

  void restore_masters(const ReadParameter& read);
  // Writes the state's elements [first, first + y.numel()) to host memory `y`.
  using ReadState =
      std::function<void(const Parameter&, const StateSpec&, const Tensor& y, std::int64_t first)>;
  void restore_states(const ReadState& read);
  bool keeps_gradients() const { return layout_.options().delayed; }
  void restore_gradients(const ReadParameter& read) { gradients_.restore(read); }  // of the step before

 private:
  Ops& ops_;
  const Layout& layout_;
  Stepping& stepping_;
  GradientHome& gradients_;
};

}  // namespace ft::zero
