// ft inspect: shows the content of a safetensors file, a model, an adapter, a checkpoint or a run's folder,
// without loading it.
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

// Writes the content as a table, in which all layers of a model share a line, or as a JSON object. Verifies a
// checkpoint. Throws UserError (input or checkpoint) if the path is none of these or is damaged.
void write_inspection(const std::string& path, bool json, std::ostream& out);

}  // namespace ft
