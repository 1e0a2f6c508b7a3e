// Reads the description that a Parquet or Arrow file has of itself, without its values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/files/files.h"

namespace ft::columnar {

struct Summary {
  struct Column {
    std::string name, type;  // such as list<struct<role: string, content: string>>
  };
  bool parquet = false;
  std::int64_t rows = 0, parts = 0;  // parts: row groups or batches
  std::vector<Column> columns{};
};

// Returns true if the file's extension is .parquet or .arrow.
bool has_summary(const DataFile& file);
// Throws UserError (input), which names the file, if it is damaged.
Summary summarize(const DataFile& file);

}  // namespace ft::columnar
