// Finds the column of a row's prompt by its usual names.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/config.h"
#include "engine/files/json.h"

namespace ft {

inline constexpr const char* kPromptNames[] = {"prompt", "question", "instruction"};

// Returns the first of `ours` that data.datasets.columns names, else the first of `usual` that the file has,
// else the first of `usual`.
std::string pick_column(const DatasetConfig&, std::span<const char* const> ours,
                        std::span<const char* const> usual, std::span<const std::string> names);

class PromptColumn {
 public:
  // `names`: the file's columns.
  PromptColumn(const DatasetConfig&, std::span<const std::string> names);

  const std::string& name() const { return name_; }  // in the file
  std::vector<std::string> columns() const;
  // Returns the value in a row; null if it is absent. An instruction is followed by a line feed and its
  // `input`.
  Json of(const Json& row) const;

 private:
  std::string name_;
  std::optional<std::string> input_;
};

}  // namespace ft
