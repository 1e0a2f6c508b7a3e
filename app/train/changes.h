// A run that goes on from a checkpoint, compared with the run that saved it.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/train/checkpoint.h"

namespace ft {

// Settings and files that have changed and do not stand in the way. Each line has both values and the
// meaning of the change.
struct Changes {
  std::vector<std::string> warnings, notes;
};

// Compares with the checkpoint's run.json and the hashes in its manifest, which older manifests do not have.
// Throws UserError (checkpoint) with every change that makes another function or optimizer, unless
// training.resume_despite names it.
Changes changes_since(const Checkpoint&, const RunConfig&, const FileHashes& now);

// True where training.optim has changed and resume_despite names it: the checkpoint's states are of no use.
bool begins_other_optimizer(const Checkpoint&, const RunConfig&);

}  // namespace ft
