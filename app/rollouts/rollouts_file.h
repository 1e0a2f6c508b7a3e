// rollouts.jsonl: all answers that a run generated, a line for each, in the order of their numbers. The rows
// have the columns of type rollouts_tokenized and more. ft generate with the run's settings gives the same
// answers.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/files/json.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class RolloutsFile {
 public:
  // Keeps the file's rows of steps up to `step`, and removes later ones.
  RolloutsFile(const std::string& path, std::int64_t step);
  void add(const Json& row);
  void flush();  // call once for each generation

 private:
  RunFile file_;
  std::string rows_;
};

}  // namespace ft
