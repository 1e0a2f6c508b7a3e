// Splits a file into rows of JSON text, and holds only one of them: the lines of a .jsonl file, the elements
// of a .json array, the rows of a table or of a columnar file. A byte order mark at the start, CR LF line
// ends and blank lines are accepted.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/files/files.h"

namespace ft {

inline constexpr std::int64_t kLongestRow = std::int64_t{64} << 20;  // in bytes; a longer row is refused

// The place of a row; `name` must outlive it.
struct Place {
  const std::string* name;
  std::int64_t line = 0;  // 1-based

  std::string where() const;  // such as train.jsonl:18
  // Throws UserError (input) with the text "train.jsonl:18: what".
  [[noreturn]] void fail(const std::string& what) const;
};

struct Row {
  std::string text;
  std::int64_t line = 0;  // line of the file where the row begins; in columnar files the row's number
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  // Reads the next row; returns false at the end. Throws UserError (input) if the file cannot be read, or a
  // row is too long.
  virtual bool next(Row& row) = 0;
  virtual std::int64_t bytes_read() const = 0;

  // Columnar files know their names before the first row, and can skip columns that nobody needs.
  virtual std::optional<std::vector<std::string>> columns() const { return std::nullopt; }
  virtual void read_only(std::span<const std::string>) {}  // call before the first row
};

std::unique_ptr<RowReader> open_rows(const DataFile& file);

}  // namespace ft
