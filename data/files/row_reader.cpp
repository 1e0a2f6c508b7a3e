#include "data/files/row_reader.h"

#include <string>

#include "data/files/byte_reader.h"
#include "data/files/file_formats.h"
#include "engine/core/error.h"

namespace ft {

std::string Place::where() const { return str(printable(*name), ":", line); }

void Place::fail(const std::string& what) const { throw UserError(Exit::input, where() + ": " + what); }

namespace {

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class LineRows : public RowReader {
 public:
  explicit LineRows(const DataFile& file) : in_(file) {}
  bool next(Row& row) override {
    do {
      row.text.clear();
      row.line = in_.place().line;
      if (!in_.line(row.text)) return false;
    } while (row.text.find_first_not_of(" \t") == std::string::npos);
    return true;
  }
  std::int64_t bytes_read() const override { return in_.bytes(); }

 private:
  ByteReader in_;
};

// Reads the elements of a JSON array. It only finds their ends; the parser of rows checks their JSON.
class ArrayRows : public RowReader {
 public:
  explicit ArrayRows(const DataFile& file) : in_(file) {
    in_.skip_space();
    in_.get();  // '['
  }
  bool next(Row& row) override {
    in_.skip_space();
    if (done_) return false;
    if (first_ && in_.peek() == ']') return close();
    first_ = false;
    row.text.clear();
    row.line = in_.place().line;
    element(row.text);
    if (row.text.empty()) in_.place().fail("not JSON: a value is missing in the array");
    if (in_.peek() == ']') return close() || true;
    in_.get();  // ','
    return true;
  }
  std::int64_t bytes_read() const override { return in_.bytes(); }

 private:
  bool close() {
    in_.get();
    in_.skip_space();
    if (in_.peek() != ByteReader::kEnd) in_.place().fail("not JSON: text after the end of the array");
    done_ = true;
    return false;
  }
  void element(std::string& text) {
    std::int64_t depth = 0;
    bool quoted = false;
    for (int c = in_.peek(); quoted || depth > 0 || (c != ',' && c != ']'); c = in_.peek()) {
      if (c == ByteReader::kEnd) in_.place().fail("not JSON: the array is not closed");
      in_.grow(text, 1);
      text.push_back(static_cast<char>(in_.get()));
      if (quoted && c == '\\' && in_.peek() != ByteReader::kEnd) text.push_back(static_cast<char>(in_.get()));
      if (c == '"') quoted = !quoted;
      if (!quoted) depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
    while (!text.empty() && is_space(text.back())) text.pop_back();
  }

  ByteReader in_;
  bool first_ = true, done_ = false;
};

template <class Rows>
std::unique_ptr<RowReader> make_rows(const DataFile& file) {
  return std::make_unique<Rows>(file);
}

bool starts_with_bracket(const DataFile& file) {
  ByteReader in(file);
  in.skip_space();
  return in.peek() == '[';
}

}  // namespace

const FileFormat file_formats::kJsonLines{
    .endings = {".jsonl", ".ndjson"}, .open = make_rows<LineRows>, .kin = &file_formats::kJson};

// An array, or lines: both are called .json.
const FileFormat file_formats::kJson{.endings = {".json"}, .open = [](const DataFile& file) {
                                       return starts_with_bracket(file) ? make_rows<ArrayRows>(file)
                                                                        : make_rows<LineRows>(file);
                                     }};

std::unique_ptr<RowReader> open_rows(const DataFile& file) {
  const FileFormat* format = format_of_file(file.path);
  return (format ? format : &file_formats::kJsonLines)->open(file);
}

}  // namespace ft
