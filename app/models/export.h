// ft export: writes the result of a run or of a checkpoint as a folder for PEFT or transformers, or as a GGUF
// file.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct ExportArgs {
  std::string to;      // peft, hf, gguf, gguf-lora
  std::string from;    // a run folder, a checkpoint, a model (or a hub id) or an adapter
  std::string output;  // a new folder; for GGUF a file
  std::string dtype;   // one of export_dtypes(); empty: as in MergeArgs
  bool overwrite = false;
};
std::vector<std::string> export_dtypes();  // names with q are for gguf
Exit export_model(const ExportArgs&);

}  // namespace ft
