// The content of a safetensors file, a model, an adapter, a checkpoint or a run's folder, without loading it.
#pragma once
#include <iosfwd>
#include <string>

#include "engine/core/error.h"

namespace ft {

struct InspectArgs {
  std::string path;
  bool json = false;
};
Exit inspect(const InspectArgs&);

// As a table for people, in which the layers of a model are one line, or as one JSON object. A checkpoint is
// verified. UserError when the path is none of these or is damaged.
void write_inspection(const std::string& path, bool json, std::ostream& out);

}  // namespace ft
