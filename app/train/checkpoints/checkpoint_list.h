// ft checkpoint list and prune: the checkpoints of a run at a glance, and fewer of them.
#pragma once
#include <cstdint>
#include <string>

#include "engine/core/error.h"

namespace ft {

// Prints a row for each checkpoint of a run's folder: step, time, size, the last losses, the best one; of a
// damaged one its fault. Compares sizes with the manifest, and no hashes, so that a list of large checkpoints
// takes a moment. json: prints one JSON array. Throws UserError (checkpoint) if there is none.
Exit checkpoint_list(const std::string& output_dir, bool json);

struct PruneArgs {
  std::string output_dir;
  std::int64_t keep = 1;  // number of the newest intact checkpoints that stay, beside the best one
  bool dry_run = false;
};
// Removes the oldest checkpoints of a run's folder, and prints each; leaves damaged ones, which their hashes
// show. Throws UserError (config) if a run is going on in the folder.
Exit checkpoint_prune(const PruneArgs&);

}  // namespace ft
