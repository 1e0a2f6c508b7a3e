// ft export: what a run or a checkpoint trained, as a folder of its own for PEFT or for transformers.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct ExportArgs {
  std::string to;      // peft, hf, gguf, gguf-lora
  std::string from;    // a run folder, a checkpoint, a model (also an id of the hub) or an adapter
  std::string output;  // a new folder; of GGUF a file
  std::string dtype;   // one of export_dtypes(), or empty: as of MergeArgs
  bool overwrite = false;
};
std::vector<std::string> export_dtypes();  // those with q are for gguf
Exit export_model(const ExportArgs&);

}  // namespace ft
