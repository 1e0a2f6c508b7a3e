// Reads the characters of a data file, one block in memory at a time, and counts lines. A line ends with LF,
// CR LF or CR.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/files/byte_source.h"
#include "data/files/row_reader.h"

namespace ft {

class ByteReader {
 public:
  static constexpr int kEnd = -1;

  // Skips a byte order mark at the start.
  explicit ByteReader(const DataFile& file);

  int peek() {
    if (at_ == end_ && !fill()) return kEnd;
    return static_cast<unsigned char>(block_[at_]);
  }
  int get() {
    const int c = peek();
    if (c == kEnd) return c;
    ++at_;
    line_ += c == '\n' || (c == '\r' && peek() != '\n');
    return c;
  }
  // Appends the rest of the line without its end; returns false at the end of the file.
  bool line(std::string& text);
  void skip_space();
  // Throws UserError (input) if `text` with `by` more bytes is longer than a row may be.
  void grow(const std::string& text, std::size_t by) const;

  Place place() const { return {&name_, line_}; }
  std::int64_t bytes() const { return source_->bytes_read(); }

 private:
  bool fill();

  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> block_;
  std::size_t at_ = 0, end_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace ft
