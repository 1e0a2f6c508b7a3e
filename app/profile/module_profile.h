// What the operations of a step cost, by module: a tree with the names of Hugging Face's modules.
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
  double seconds = 0, flops = 0;  // two FLOPs a multiply-add of products and attention
  Cost& operator+=(const Cost& o) {
    seconds += o.seconds;
    flops += o.flops;
    return *this;
  }
};

struct ModuleProfile {
  std::string name;  // model.layers.0.mlp; of the root: empty
  Cost forward, recompute, backward;
  std::int64_t parameters = 0, trained = 0;  // elements
  std::int64_t weights = 0;                  // bytes that its values take where nothing is sharded
  std::int64_t kept = 0;                     // bytes of activations, from the forward to the backward pass
  std::vector<ModuleProfile> parts;          // in the order of their first use

  std::string_view own_name() const;  // mlp
  double seconds() const { return forward.seconds + recompute.seconds + backward.seconds; }
  // What the model's definition takes: recomputation is not counted.
  double flops() const { return forward.flops + backward.flops; }
};

// Each module with all its parts. `trace` has kept its calls.
ModuleProfile profile_of(Model&, TraceOps& trace);

// The same with the modules of a list, such as the layers, added up as one, model.layers.*.
ModuleProfile with_lists_folded(const ModuleProfile&);
// Modules below this depth (of the root: 0) become part of what they are in; -1: none.
void cut(ModuleProfile&, std::int64_t depth);
// f(module, depth): a module before its parts.
void each_module(const ModuleProfile& m, const auto& f, std::int64_t depth = 0) {
  f(m, depth);
  for (const ModuleProfile& part : m.parts) each_module(part, f, depth + 1);
}

}  // namespace ft
