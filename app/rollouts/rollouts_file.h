// rollouts.jsonl: what a run generated, a line for each answer in the order of their numbers. The rows are
// of type rollouts_tokenized, with more columns; ft generate with the settings of the run gives the same
// answers to them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/files/json.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class RolloutsFile {
 public:
  // Keeps rows of steps up to `step` that are there.
  RolloutsFile(const std::string& path, std::int64_t step);
  void add(const Json& row);
  void flush();  // once for each generation

 private:
  RunFile file_;
  std::string rows_;
};

}  // namespace ft
