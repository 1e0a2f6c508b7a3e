// What a Parquet or Arrow file says about itself, without its values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/files/files.h"

namespace ft::columnar {

struct Summary {
  struct Column {
    std::string name, type;  // list<struct<role: string, content: string>>
  };
  bool parquet = false;
  std::int64_t rows = 0, parts = 0;  // parts: row groups, or batches
  std::vector<Column> columns{};
};

// By the file's extension: .parquet or .arrow.
bool has_summary(const DataFile& file);
// Throws a UserError (exit 3) that names the file.
Summary summarize(const DataFile& file);

}  // namespace ft::columnar
