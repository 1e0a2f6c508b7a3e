// ft checkpoint list and prune: the checkpoints of a run at a glance, and fewer of them.
#pragma once
#include <cstdint>
#include <string>

#include "engine/core/error.h"

namespace ft {

// Prints a row for each checkpoint of a run's folder: step, time, size, last losses, a mark for the best; for
// a damaged one its fault. Compares sizes with the manifest but no hashes, so that large checkpoints are
// listed at once. json: prints one JSON array. Throws UserError (checkpoint) if there is none.
Exit checkpoint_list(const std::string& output_dir, bool json);

struct PruneArgs {
  std::string output_dir;
  std::int64_t keep = 1;  // number of the newest intact checkpoints that stay, beside the best one
  bool dry_run = false;
};
// Removes the oldest checkpoints of a run's folder, and prints each. Compares hashes, and keeps damaged ones.
// Throws UserError (config) if a run is active in the folder.
Exit checkpoint_prune(const PruneArgs&);

}  // namespace ft
