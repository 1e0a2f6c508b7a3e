#include "data/rows/prompt_column.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ft {
namespace {

bool has(std::span<const std::string> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string pick_column(const DatasetConfig& dataset, std::span<const char* const> ours,
                        std::span<const char* const> usual, std::span<const std::string> names) {
  for (const char* name : ours)
    if (const auto given = dataset.columns.find(name); given != dataset.columns.end()) return given->second;
  for (const char* name : usual)
    if (has(names, name)) return name;
  return usual.front();
}

PromptColumn::PromptColumn(const DatasetConfig& dataset, std::span<const std::string> names)
    : name_(pick_column(dataset, std::span(kPromptNames).first(1), kPromptNames, names)) {
  const bool renamed = dataset.columns.contains("prompt");
  if (name_ == "instruction" && !renamed && has(names, "input")) input_ = "input";
}

std::vector<std::string> PromptColumn::columns() const {
  return input_ ? std::vector{name_, *input_} : std::vector{name_};
}

Json PromptColumn::of(const Json& row) const {
  const auto found = row.find(name_);
  if (found == row.end()) return nullptr;
  if (!input_ || !found->is_string()) return *found;
  const auto input = row.find(*input_);
  const bool more = input != row.end() && input->is_string() && *input != "";
  return more ? found->get<std::string>() + "\n" + input->get<std::string>() : found->get<std::string>();
}

}  // namespace ft
