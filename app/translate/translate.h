// ft translate-args: a command line that somebody has for another program, as a run.json.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct TranslateArgs {
  std::vector<std::string> command;  // deepspeed --num_gpus=2 run_translation.py --fp16 ...
  bool json = false;                 // one object: config, flags, warnings, command
};
// run.json on stdout; a verdict for each flag, warnings and the command to type on stderr. Exit::config where
// a flag is refused: then there is no run.json.
Exit translate_args(const TranslateArgs&);

}  // namespace ft
