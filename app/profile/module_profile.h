// Costs of a step's operations by module: a tree with the names of Hugging Face's modules.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model.h"
#include "engine/ops/trace_ops.h"

namespace ft {

struct Cost {
  double seconds = 0, flops = 0;  // FLOPs of products and attention, two for each multiply-add
  Cost& operator+=(const Cost& o) {
    seconds += o.seconds;
    flops += o.flops;
    return *this;
  }
};

struct ModuleProfile {
  std::string name;  // such as model.layers.0.mlp; empty: the root
  Cost forward, recompute, backward;
  std::int64_t parameters = 0, trained = 0;  // elements
  std::int64_t weights = 0;                  // bytes of its values if nothing is sharded
  std::int64_t kept = 0;                     // bytes of activations, from the forward to the backward pass
  std::vector<ModuleProfile> parts;          // in the order of their first use

  std::string_view own_name() const;  // the last part of the name: mlp
  double seconds() const { return forward.seconds + recompute.seconds + backward.seconds; }
  // Returns the FLOPs of the model's definition; recomputation is not counted.
  double flops() const { return forward.flops + backward.flops; }
};

// Returns the costs of every module, its parts included. `trace` must have recorded its calls.
ModuleProfile profile_of(Model&, TraceOps& trace);

// Adds up the modules of each list, such as the layers, as one module: model.layers.*.
ModuleProfile with_lists_folded(const ModuleProfile&);
// Removes the modules below this depth (the root has 0); the costs of the module above include theirs. -1:
// keeps all.
void cut(ModuleProfile&, std::int64_t depth);
// Calls f(module, depth) for every module, before its parts.
void each_module(const ModuleProfile& m, const auto& f, std::int64_t depth = 0) {
  f(m, depth);
  for (const ModuleProfile& part : m.parts) each_module(part, f, depth + 1);
}

}  // namespace ft
