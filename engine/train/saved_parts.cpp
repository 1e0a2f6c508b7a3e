#include "engine/train/saved_parts.h"

#include "engine/core/error.h"
#include "engine/zero/host_pieces.h"

namespace ft {
namespace {

void send_states(ParameterStore& store, const Slice& s, HostPieces& pieces, PartSink& to,
                 const std::string& prefix = "") {
  const auto states = store.layout().states(*s.parameter);
  for (std::size_t k = 0; k < states.size(); ++k)
    if (s.states[k])
      to.part({saved_name(*s.parameter, states[k], prefix)}, *s.parameter, s.first / states[k].block, pieces,
              s.states[k]);
}

void send_differing(ParameterStore& store, PartSink& to, const std::string& prefix = "") {
  store.parts().each_differing(
      [&](const Parameter& p, const StateSpec& state, const Tensor& values, std::int64_t first) {
        to.values(saved_name(p, state, prefix), first, values);
      });
}

}  // namespace

std::string saved_name(const Parameter& p, const StateSpec& state, const std::string& prefix) {
  return str(prefix, p.name, ".", state.name);
}

void send_parts(ParameterStore& store, const PlaceOf& place_of, Content content, PartSink& to) {
  const bool gradients = content == Content::with_gradients,
             states = gradients || content == Content::weights_and_states;
  store.parts().each_part(
      [&](const Slice& s, HostPieces& pieces) {
        const Tensor& weights = content == Content::average ? s.states.back() : s.master;
        to.part(place_of(*s.parameter), *s.parameter, s.first, pieces, weights);
        if (states) send_states(store, s, pieces, to);
        if (gradients) to.part({saved_name(*s.parameter, kGradient)}, *s.parameter, s.first, pieces, s.grad);
      },
      gradients);
  if (states) send_differing(store, to);
}

void send_critic(ParameterStore& store, PartSink& to) {
  store.parts().each_part([&](const Slice& s, HostPieces& pieces) {
    to.part({saved_name(*s.parameter, kValue, kCritic)}, *s.parameter, s.first, pieces, s.master);
    send_states(store, s, pieces, to, kCritic);
  });
  send_differing(store, to, kCritic);
}

}  // namespace ft
