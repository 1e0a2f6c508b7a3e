// ft data filter: copies the rows of data files that no rule leaves out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/filter/filter.h"
#include "engine/core/error.h"

namespace ft {

struct DataFilterArgs {
  std::vector<std::string> data;  // files, folders, globs or ids of data sets
  std::optional<std::string> split;
  std::string output;  // a .jsonl file
  std::string model;   // folder with the tokenizer; empty: none
  FilterRules rules;
  bool near = false;
  NearRule near_rule;  // with near
  double memory_gib = 8;
  bool overwrite = false, json = false;
};

// Writes the kept rows to args.output, which appears complete or not at all, and prints the counts. Throws
// UserError.
Exit data_filter(const DataFilterArgs& args);

}  // namespace ft
