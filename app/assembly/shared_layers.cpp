#include "app/assembly/shared_layers.h"

#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

constexpr const char* kSetting = "distributed.tensor_parallel_size";

void refuse(const std::string& setting, const std::string& why, const char* with) {
  throw UserError(Exit::config,
                  str(setting, ": ", why, " with ", with, " above 1; leave one of the two out"));
}

}  // namespace

// A state that spans blocks or a full matrix would have other values if computed from a part of it.
void require_elementwise(BuiltModel& b, const RunConfig& config, const char* setting) {
  const StatesOf states = states_of(config.training);
  EachParameter each([&](Parameter& p) {
    if (!p.trainable || !p.portion) return;
    for (const StateSpec& s : states(p))
      if (s.unsharded() || s.complete_gradient || s.block != 1)
        refuse("training.optim",
               str("keeps a state, ", s.name, ", of more than single elements of ", p.name,
                   ", which ft does not share out"),
               setting);
  });
  b.model().visit(each);
}

void share_layers(BuiltModel& b, const RunConfig& config, TensorRank t) {
  if (t.size == 1) return;
  b.model().cut(t);
  require_elementwise(b, config, kSetting);
}

}  // namespace ft
