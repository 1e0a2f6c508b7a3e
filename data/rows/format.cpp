#include "data/rows/format.h"

#include <algorithm>

namespace ft {

bool RowNames::has(const char* name) const {
  return std::find(names_.begin(), names_.end(), column(context_.dataset, name)) != names_.end();
}

bool RowNames::any(std::initializer_list<const char*> names) const {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return has(name); });
}

std::vector<std::string_view> FormatContext::chat_settings() const {
  std::vector<std::string_view> given;
  if (data.datasets.size() + data.eval_datasets.size() != 1) return given;
  if (!data.tools.text.empty()) given.emplace_back("tools");
  if (!data.chat_template_kwargs.text.empty()) given.emplace_back("chat_template_kwargs");
  if (data.reasoning_content) given.emplace_back("reasoning_content");
  if (data.ignore_empty_think) given.emplace_back("ignore_empty_think");
  if (data.mask_history) given.emplace_back("mask_history");
  return given;
}

std::string column(const DatasetConfig& dataset, const std::string& name) {
  const auto it = dataset.columns.find(name);
  return it == dataset.columns.end() ? name : it->second;
}

}  // namespace ft
