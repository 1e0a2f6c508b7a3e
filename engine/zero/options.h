// Choices of ZeRO (Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
// models", SC 2020) for a ParameterStore. Parameters, gradients and optimizer states are each replicated or
// sharded. A stage is a name for three such placements and is not used once they are chosen.
#pragma once
#include <cstdint>
#include <limits>

#include "engine/zero/depot.h"

namespace ft {

enum class Placement : std::uint8_t { replicated, sharded };

struct ZeroStage {
  Placement params, grads, states;
  static constexpr ZeroStage of(int stage) {
    auto from = [stage](int first) { return stage >= first ? Placement::sharded : Placement::replicated; };
    return {.params = from(3), .grads = from(2), .states = from(1)};
  }
};

// Elements are counted in the stored tensors: a byte of 4-bit codes is one element.
struct ZeroOptions {
  ZeroStage stage;
  int group = 0;             // ranks that shard everything among them; divides the number of ranks. 0: all
  std::int64_t persist = 0;  // parameters with at most this many elements are never sharded
  // If values are sharded: units are prefetched until this many elements are in flight, as long as at most
  // `max_live` elements are gathered at once, including units in use and persistent parameters. The limit
  // never stops gathering a unit that is needed now.
  std::int64_t prefetch = 0, max_live = std::numeric_limits<std::int64_t>::max();
  bool overlap = true;  // prefetch, and reduce a unit while the next one is computed
  // Sharded matrices are sent in 8 bits, and their gradients in 4 (coded.h). near: groups of this many ranks
  // shard a second copy of the values, and add up gradients within the group first; divides the number of
  // ranks. 0: none.
  bool coded_values = false, coded_grads = false;
  int near = 0;
  // Elements of offloaded data that are on the device at once during an update.
  std::int64_t window = std::int64_t{1} << 21;
  int windows = 4;      // windows at once: one in use, one being written back, the others being fetched
  int units_ahead = 5;  // most units prefetched, if values are offloaded
  Residence params_home, states_home;
  bool delayed = false;  // a step's gradients are applied during the next step; they are offloaded
  bool early = false;    // update units during the backward pass of others (Homes::host)
};

}  // namespace ft
