// rollouts.jsonl: all answers that a run generated, a line for each, in the order of their numbers. The rows
// have the columns of type rollouts_tokenized and more. ft generate with the run's settings gives the same
// answers.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/files/json.h"
#include "engine/train/reports/best_effort.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class RolloutsFile {
 public:
  // Keeps the file's rows of steps up to `step`, and removes later ones. `warned` hears of rows that cannot
  // be written, and outlives this object.
  RolloutsFile(const std::string& path, std::int64_t step, Report& warned);
  void add(const Json& row);
  void flush();  // call once for each generation

 private:
  RunFile file_;
  LostRows lost_;
  std::string rows_;
};

}  // namespace ft
