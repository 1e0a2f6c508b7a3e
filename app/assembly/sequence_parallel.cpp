#include "app/assembly/sequence_parallel.h"

namespace ft {

void require_shareable(const RunConfig& config, Model& model) {
  const DistributedConfig& d = config.distributed;
  if (d.sequence_parallel_size == 1) return;
  model.share_rows(d.sequence_parallel_size, d.sharing());
}

}  // namespace ft
