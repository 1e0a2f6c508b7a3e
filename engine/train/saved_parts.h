// This rank's part of the tensors in a checkpoint or a result: weights, optimizer states, gradients of a
// delayed step, a critic. Together the ranks' parts hold each element once.
#pragma once
#include <functional>
#include <string>

#include "engine/zero/parameter_store.h"

namespace ft {

// The gradient of a delayed step, saved like an optimizer state.
inline constexpr StateSpec kGradient{.name = "delayed_grad"};
// A critic's values, and the prefix of its tensors' names.
inline constexpr StateSpec kValue{.name = "value"};
inline constexpr const char* kCritic = "critic.";

// Returns the name of a state's tensor in the files.
std::string saved_name(const Parameter&, const StateSpec&, const std::string& prefix = "");

// average: the weights' moving average (the last state) instead of the weights.
enum class Content : std::uint8_t { weights, average, weights_and_states, with_gradients };

// The place of a parameter in the files: a tensor's name, and the number of its first element there.
struct FilePlace {
  std::string name;
  std::int64_t begins = 0;
};
using PlaceOf = std::function<FilePlace(const Parameter&)>;

// Receives the tensors.
class PartSink {
 public:
  virtual ~PartSink() = default;
  // Receives values of a parameter, or of its state, from this rank's element `first` on: memory that
  // `pieces` reads, valid during the call.
  virtual void part(const FilePlace&, const Parameter&, std::int64_t first, HostPieces& pieces,
                    const Tensor& values) = 0;
  // Receives values in host memory, valid during the call, for tensor `name` in the files, from its element
  // `first` on.
  virtual void values(const std::string& name, std::int64_t first, const Tensor& host) = 0;
};

// Sends this rank's part to the sink, in an order that depends only on the model and the ranks.
void send_parts(ParameterStore&, const PlaceOf&, Content, PartSink&);
void send_critic(ParameterStore&, PartSink&);

}  // namespace ft
