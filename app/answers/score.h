// ft score: scores, classifies or embeds the rows of a file.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct ScoreArgs {
  std::string model, adapter;          // folders; adapter empty: none
  std::string input, output;           // JSON lines; the output adds the results to each row
  std::string dtype = "float32";       // of the computation: float32, bfloat16, float16
  std::vector<std::string> overrides;  // settings
  bool overwrite = false;              // replace the output file
};
Exit score(const ScoreArgs&);

}  // namespace ft
