// ft generate: answers the prompts of a file, or one prompt.
#pragma once
#include <string>

#include "app/answers/args.h"
#include "engine/core/error.h"

namespace ft {

struct GenerateArgs : AnswererArgs {
  std::string input, output;  // files of JSON lines
  std::string prompt;         // instead of a file: one text, answered on stdout
  bool overwrite = false;     // replace the output file
};
Exit generate(const GenerateArgs&);

}  // namespace ft
