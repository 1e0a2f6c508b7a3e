#include "app/assembly/sequence_parallel.h"

#include "data/efficiency/schedule.h"
#include "engine/core/error.h"

namespace ft {

void require_shareable(const RunConfig& config, Model& model) {
  const DistributedConfig& d = config.distributed;
  if (d.sequence_parallel_size == 1) return;
  const auto refuse = [&](const std::string& setting, const std::string& why) {
    throw UserError(Exit::config, str(setting, ": with distributed.sequence_parallel_size ",
                                      d.sequence_parallel_size, ' ', why));
  };
  if (config.objective.type != ObjectiveType::sft)
    refuse("objective.type", "only sft is available yet: others need all of a sequence on one rank");
  if (has_random_ltd(config.data_efficiency))
    refuse("data_efficiency.data_routing.random_ltd", "tokens cannot be dropped yet; leave it out");
  if (config.model.sparse_attention.mode != SparsityMode::dense)
    refuse("model.sparse_attention.mode", "only dense is available yet");
  model.share_rows(d.sequence_parallel_size, d.sharing());
}

}  // namespace ft
