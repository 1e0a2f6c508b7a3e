// Compares a resumed run with the run that saved its checkpoint.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/train/checkpoint.h"

namespace ft {

// Changed settings and files that do not prevent resuming. Each line has both values and the meaning of the
// change.
struct Changes {
  std::vector<std::string> warnings, notes;
};

// Compares the configuration with the checkpoint's run.json, and the files with the hashes in its manifest;
// older manifests have none. Throws UserError (checkpoint) with every change that makes another function or
// optimizer, unless training.resume_despite names it.
Changes changes_since(const Checkpoint&, const RunConfig&, const FileHashes& now);

// True if training.optim has changed and resume_despite names it: the checkpoint's states cannot be used.
bool begins_other_optimizer(const Checkpoint&, const RunConfig&);

}  // namespace ft
