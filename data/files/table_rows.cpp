// Reads rows of files without JSON: tables (.csv, .tsv) and lines of text (.txt). Each row becomes a JSON
// object, so that formats see one kind of row.
//
// A table is RFC 4180 with a separator: the first row names the columns; a quoted field may hold separators,
// line ends and doubled quotes. Every value is a text. Each line of text that is not blank is {"text": line}.
#include <algorithm>
#include <memory>
#include <vector>

#include "data/files/byte_reader.h"
#include "data/files/file_formats.h"
#include "data/files/json_quote.h"
#include "data/files/row_reader.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class TableRows : public RowReader {
 public:
  TableRows(const DataFile& file, char separator) : in_(file), separator_(separator) {
    skip_blank_lines();
    if (in_.peek() == ByteReader::kEnd) return;
    columns_ = record();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Place at{in_.place().name, 1};
      if (columns_[i].empty())
        at.fail(str("column ", i + 1, " has no name; the first row names the columns"));
      if (std::find(columns_.begin(), columns_.begin() + static_cast<std::ptrdiff_t>(i), columns_[i]) !=
          columns_.begin() + static_cast<std::ptrdiff_t>(i))
        at.fail(str("two columns are called ", printable(columns_[i], 40)));
    }
  }

  bool next(Row& row) override {
    skip_blank_lines();
    if (in_.peek() == ByteReader::kEnd) return false;
    row.line = in_.place().line;
    const std::vector<std::string> fields = record();
    if (fields.size() != columns_.size())
      Place{in_.place().name, row.line}.fail(str(
          fields.size(), fields.size() == 1 ? " field" : " fields", "; the first row names ", columns_.size(),
          " columns. A field that holds a separator, a quote or a line feed must be in quotes"));
    row.text = "{";
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) row.text += ", ";
      quote_json(columns_[i], row.text);
      row.text += ": ";
      quote_json(fields[i], row.text);
    }
    row.text += "}";
    return true;
  }
  std::int64_t bytes_read() const override { return in_.bytes(); }

 private:
  void skip_blank_lines() {
    while (in_.peek() == '\n' || in_.peek() == '\r') in_.get();
  }

  std::vector<std::string> record() {
    const Place begin = in_.place();
    std::vector<std::string> fields;
    for (bool more = true; more;) {
      std::string& text = fields.emplace_back();
      if (in_.peek() == '"')
        quoted(text, begin);
      else
        plain(text);
      if (!is_utf8(text)) in_.place().fail(str("column ", fields.size(), " is not UTF-8"));
      more = in_.peek() == separator_;
      if (more) in_.get();
    }
    if (in_.peek() == '\r') in_.get();
    if (in_.peek() == '\n') in_.get();
    return fields;
  }

  void plain(std::string& text) {
    const auto ends = [&](int c) {
      return c == separator_ || c == '\n' || c == '\r' || c == ByteReader::kEnd;
    };
    for (int c = in_.peek(); !ends(c); c = in_.peek()) {
      in_.get();
      add(text, c);
    }
  }

  void quoted(std::string& text, const Place& begin) {
    in_.get();
    for (;;) {
      const int c = in_.get();
      if (c == ByteReader::kEnd) begin.fail("a quote opened in this row is never closed");
      if (c != '"') {
        add(text, c);
        continue;
      }
      if (in_.peek() != '"') break;
      add(text, in_.get());
    }
    const int c = in_.peek();
    if (c != separator_ && c != '\n' && c != '\r' && c != ByteReader::kEnd)
      in_.place().fail("text after a closing quote; write a quote inside quotes twice");
  }
  void add(std::string& text, int c) {
    if ((text.size() & 0xFFFF) == 0) in_.grow(text, 0x10000);
    text.push_back(static_cast<char>(c));
  }

  ByteReader in_;
  int separator_;
  std::vector<std::string> columns_;
};

class TextLines : public RowReader {
 public:
  explicit TextLines(const DataFile& file) : in_(file) {}
  bool next(Row& row) override {
    std::string line;
    do {
      line.clear();
      row.line = in_.place().line;
      if (!in_.line(line)) return false;
    } while (line.find_first_not_of(" \t") == std::string::npos);
    if (!is_utf8(line)) Place{in_.place().name, row.line}.fail("not UTF-8");
    row.text = "{\"text\": ";
    quote_json(line, row.text);
    row.text += "}";
    return true;
  }
  std::int64_t bytes_read() const override { return in_.bytes(); }

 private:
  ByteReader in_;
};

template <char kSeparator>
std::unique_ptr<RowReader> open_table(const DataFile& file) {
  return std::make_unique<TableRows>(file, kSeparator);
}

std::unique_ptr<RowReader> open_text(const DataFile& file) { return std::make_unique<TextLines>(file); }

}  // namespace

const FileFormat file_formats::kCsv{.endings = {".csv"}, .open = open_table<','>};
const FileFormat file_formats::kTsv{
    .endings = {".tsv"}, .open = open_table<'\t'>, .kin = &file_formats::kCsv};
const FileFormat file_formats::kText{.endings = {".txt"}, .open = open_text, .notes = true};

}  // namespace ft
