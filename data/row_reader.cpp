#include "data/row_reader.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/core/error.h"

namespace ft {

std::string Place::where() const { return str(printable(*name), ":", line); }

void Place::fail(const std::string& what) const { throw UserError(Exit::input, where() + ": " + what); }

namespace {

constexpr int kEnd = -1;

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// The bytes of a file, one block in memory, with the line that the next byte is in.
class ByteReader {
 public:
  explicit ByteReader(const DataFile& file)
      : name_(file.name), file_(std::fopen(file.path.c_str(), "rb"), &std::fclose), block_(1 << 20) {
    if (!file_) throw UserError(Exit::input, str(printable(name_), ": ", std::strerror(errno)));
    fill();
    if (std::string_view(block_.data(), end_).starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  int peek() {
    if (at_ == end_ && !fill()) return kEnd;
    return static_cast<unsigned char>(block_[at_]);
  }
  int get() {
    const int c = peek();
    if (c == kEnd) return c;
    ++at_;
    line_ += c == '\n';
    return c;
  }
  // Appends the rest of the line without its line feed; false when there is nothing more.
  bool line(std::string& text) {
    if (peek() == kEnd) return false;
    while (peek() != kEnd) {
      const char* begin = block_.data() + at_;
      const void* feed = std::memchr(begin, '\n', end_ - at_);
      const std::size_t count =
          feed ? static_cast<std::size_t>(static_cast<const char*>(feed) - begin) : end_ - at_;
      grow(text, count);
      text.append(begin, count);
      at_ += count;
      if (feed) {
        get();
        break;
      }
    }
    return true;
  }
  void skip_space() {
    while (is_space(peek())) get();
  }
  // Refuses to make `text` longer than a row may be.
  void grow(const std::string& text, std::size_t by) const {
    if (static_cast<std::int64_t>(text.size() + by) > kLongestRow)
      place().fail(str("a row of more than ", kLongestRow >> 20, " MiB"));
  }

  Place place() const { return {&name_, line_}; }
  std::int64_t bytes() const { return total_ - static_cast<std::int64_t>(end_ - at_); }

 private:
  bool fill() {
    at_ = 0;
    end_ = std::fread(block_.data(), 1, block_.size(), file_.get());
    if (end_ == 0 && std::ferror(file_.get()) != 0)
      throw UserError(Exit::input, str(printable(name_), ": reading failed: ", std::strerror(errno)));
    total_ += static_cast<std::int64_t>(end_);
    return end_ != 0;
  }

  std::string name_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::vector<char> block_;
  std::size_t at_ = 0, end_ = 0;
  std::int64_t line_ = 1, total_ = 0;
};

class LineRows : public RowReader {
 public:
  explicit LineRows(const DataFile& file) : in_(file) {}
  bool next(Row& row) override {
    do {
      row.text.clear();
      row.line = in_.place().line;
      if (!in_.line(row.text)) return false;
      if (row.text.ends_with('\r')) row.text.pop_back();
    } while (row.text.find_first_not_of(" \t\r") == std::string::npos);
    return true;
  }
  std::int64_t bytes_read() const override { return in_.bytes(); }

 private:
  ByteReader in_;
};

// Finds where each element of the array ends; whether it is JSON is for the parser of rows to say.
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
    if (in_.peek() != kEnd) in_.place().fail("not JSON: something follows the end of the array");
    done_ = true;
    return false;
  }
  void element(std::string& text) {
    std::int64_t depth = 0;
    bool quoted = false;
    for (int c = in_.peek(); quoted || depth > 0 || (c != ',' && c != ']'); c = in_.peek()) {
      if (c == kEnd) in_.place().fail("not JSON: the array is not closed");
      in_.grow(text, 1);
      text.push_back(static_cast<char>(in_.get()));
      if (quoted && c == '\\' && in_.peek() != kEnd) text.push_back(static_cast<char>(in_.get()));
      if (c == '"') quoted = !quoted;
      if (!quoted) depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
    while (!text.empty() && is_space(text.back())) text.pop_back();
  }

  ByteReader in_;
  bool first_ = true, done_ = false;
};

bool starts_with_bracket(const DataFile& file) {
  ByteReader in(file);
  in.skip_space();
  return in.peek() == '[';
}

}  // namespace

std::unique_ptr<RowReader> open_rows(const DataFile& file) {
  if (file.path.extension() == ".json" && starts_with_bracket(file)) return std::make_unique<ArrayRows>(file);
  return std::make_unique<LineRows>(file);
}

}  // namespace ft
