// ft generate: answers to the prompts of a file, or to one.
#pragma once
#include <string>

#include "app/answers/args.h"
#include "engine/core/error.h"

namespace ft {

struct GenerateArgs : AnswererArgs {
  std::string input, output;  // JSON lines
  std::string prompt;         // instead: one text, answered on stdout
  bool overwrite = false;     // replace the output file
};
Exit generate(const GenerateArgs&);

}  // namespace ft
