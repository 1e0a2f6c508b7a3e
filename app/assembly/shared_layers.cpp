#include "app/assembly/shared_layers.h"

#include "data/efficiency/schedule.h"
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
      if (s.whole() || s.whole_gradient || s.block != 1)
        refuse("training.optim",
               str("keeps a state, ", s.name, ", of more than single elements of ", p.name,
                   ", which ft does not share out"),
               setting);
  });
  b.model().visit(each);
}

void share_layers(BuiltModel& b, const RunConfig& config, TensorRank t) {
  if (t.size == 1) return;
  if (config.objective.type != ObjectiveType::sft) refuse("objective.type", "only sft is computed", kSetting);
  if (config.model.sparse_attention.mode != SparsityMode::dense)
    refuse("model.sparse_attention", "ft does not share its layouts out", kSetting);
  if (t.shards_rows && has_random_ltd(config.data_efficiency))
    throw UserError(
        Exit::config,
        "distributed.partition_activations: not with data_efficiency.data_routing.random_ltd yet; "
        "leave one of the two out");
  b.model().cut(t);
  require_elementwise(b, config, kSetting);
}

}  // namespace ft
