// Text tables for people.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "app/screen/format.h"

namespace ft {

// A table with aligned columns: the first left-aligned, the others right-aligned.
class Table {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const {
    std::vector<std::int64_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], show::columns(row[i]));
    }
    std::string out;
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string space(static_cast<std::size_t>(widths[i] - show::columns(row[i])), ' ');
        out += i == 0 ? row[i] + space : "  " + space + row[i];
      }
      out += '\n';
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ft
