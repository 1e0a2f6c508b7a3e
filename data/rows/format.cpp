#include "data/rows/format.h"

namespace ft {

std::vector<std::string_view> FormatContext::chat_settings() const {
  std::vector<std::string_view> given;
  if (data.datasets.size() + data.eval_datasets.size() != 1) return given;
  if (!data.tools.text.empty()) given.emplace_back("tools");
  if (!data.chat_template_kwargs.text.empty()) given.emplace_back("chat_template_kwargs");
  return given;
}

std::string column(const DatasetConfig& dataset, const std::string& name) {
  const auto it = dataset.columns.find(name);
  return it == dataset.columns.end() ? name : it->second;
}

}  // namespace ft
