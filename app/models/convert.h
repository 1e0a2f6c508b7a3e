// ft checkpoint convert: writes a checkpoint as a folder for PEFT or transformers. Checkpoints themselves
// need no conversion: they are the same for every number of ranks, ZeRO stage and layout.
#pragma once
#include <string>

#include "engine/core/error.h"

namespace ft {

struct ConvertArgs {
  std::string path;    // a checkpoint, or a run's folder: its newest complete checkpoint
  std::string to;      // peft or hf; empty: peft if the checkpoint holds an adapter
  std::string output;  // a new folder
  std::string dtype;   // of ExportArgs
  bool overwrite = false;
};
// Verifies every file's hash first. Throws UserError (checkpoint) if one is damaged or there is none.
Exit convert_checkpoint(const ConvertArgs&);

}  // namespace ft
