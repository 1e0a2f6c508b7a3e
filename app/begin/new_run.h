// ft new: asks for a model, data and a method, chooses all other settings, and writes them as a run.json.
#pragma once
#include <string>
#include <vector>

#include "app/begin/begin.h"
#include "engine/core/error.h"

namespace ft {

struct NewArgs {
  BeginArgs begin;  // empty members are asked for; `output` is the file to write
  bool overwrite = false;
  std::vector<std::string> overrides;
};

// Asks on a terminal. Throws UserError (config), which names the option, if an answer is missing without one,
// or if the file exists and is not to be overwritten.
Exit new_run(const NewArgs&);

}  // namespace ft
