// ft translate-args: translates the command line of another program into a run.json.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct TranslateArgs {
  std::vector<std::string> command;  // deepspeed --num_gpus=2 run_translation.py --fp16 ...
  bool json = false;                 // print one object: config, flags, warnings, command
};
// Prints run.json on stdout; prints a verdict for each flag, warnings and the command to type on stderr.
// Returns Exit::config without a run.json if a flag is refused.
Exit translate_args(const TranslateArgs&);

}  // namespace ft
