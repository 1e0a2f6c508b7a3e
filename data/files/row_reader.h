// Cuts a file into rows of JSON text without holding more than one of them: the lines of a .jsonl file, the
// elements of a .json array, the rows of a table or of a file of columns. A byte order mark at the start,
// CR LF line ends and blank lines are accepted.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/files/files.h"

namespace ft {

inline constexpr std::int64_t kLongestRow = std::int64_t{64} << 20;  // bytes; a longer row is refused

// Where a row is; `name` must outlive it.
struct Place {
  const std::string* name;
  std::int64_t line = 0;  // 1-based

  std::string where() const;  // train.jsonl:18
  // Throws a UserError (exit 3): train.jsonl:18: what
  [[noreturn]] void fail(const std::string& what) const;
};

struct Row {
  std::string text;
  std::int64_t line = 0;  // the line of the file in which it starts; of files of columns, the row
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  // The next row, or false at the end. Throws a UserError when the file cannot be read, or a row is too long.
  virtual bool next(Row& row) = 0;
  virtual std::int64_t bytes_read() const = 0;

  // Files of columns know their names before the first row, and can leave out those that nobody needs.
  virtual std::optional<std::vector<std::string>> columns() const { return std::nullopt; }
  virtual void read_only(std::span<const std::string>) {}  // before the first row
};

std::unique_ptr<RowReader> open_rows(const DataFile& file);

}  // namespace ft
