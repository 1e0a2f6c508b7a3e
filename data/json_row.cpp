#include "data/json_row.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"

namespace ft {
namespace {

using nlohmann::json;

// Bytes of the well-formed UTF-8 character at text[i]; 0 where there is none.
std::size_t utf8_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const unsigned c = byte(i), d = byte(i + 1);
  const std::size_t n = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
  for (std::size_t k = 1; k < n; ++k)
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  const bool wrong = (c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) || (c == 0xF0 && d < 0x90) ||
                     (c == 0xF4 && d > 0x8F);
  return wrong ? 0 : n;
}

// The part of the line around byte `at`, and below it a caret.
std::string excerpt(std::string_view line, std::size_t at) {
  constexpr std::size_t kBefore = 60, kAfter = 40;
  at = std::min(at, line.size());
  const std::size_t end = std::min(line.size(), at + kAfter);
  std::string shown;
  std::size_t caret = std::string::npos, width = 0;
  for (std::size_t i = at > kBefore ? at - kBefore : 0; i < end; ++width) {
    if (i >= at && caret == std::string::npos) caret = width;
    const std::size_t n = utf8_length(line, i);
    const auto c = static_cast<unsigned char>(line[i]);
    if (n == 0 || c < 0x20 || c == 0x7f)
      shown += '?';
    else
      shown += line.substr(i, n);
    i += std::max<std::size_t>(n, 1);
  }
  caret = std::min(caret, width);
  return str("\n  ", shown, "\n  ", std::string(caret, ' '), "^");
}

[[noreturn]] void fail_at(std::string_view row, const Place& at, std::size_t byte, const std::string& what) {
  const auto begin = row.begin(), here = begin + static_cast<std::ptrdiff_t>(std::min(byte, row.size()));
  const auto lines = std::count(begin, here, '\n');
  const auto line_begin = std::find(std::reverse_iterator(here), row.rend(), '\n').base();
  const auto line_end = std::find(here, row.end(), '\n');
  const auto column = static_cast<std::size_t>(here - line_begin);
  const std::string_view line = row.substr(static_cast<std::size_t>(line_begin - begin),
                                           static_cast<std::size_t>(line_end - line_begin));
  Place{at.name, at.line + lines}.fail(str(what, " at column ", column + 1, excerpt(line, column)));
}

// "[json.exception...] parse error at ...: syntax error while parsing X - unexpected Y; last read: Z" -> the
// part that tells.
std::string told(std::string text) {
  if (text.find("ill-formed UTF-8") != std::string::npos) return "text that is not UTF-8";
  const std::size_t dash = text.find(" - ");
  if (dash != std::string::npos) text = text.substr(dash + 3);
  const std::size_t last = text.find("; last read: ");
  if (last != std::string::npos) {
    const std::size_t expected = text.find("; expected ", last);
    text = text.substr(0, last) + (expected == std::string::npos ? "" : text.substr(expected));
  }
  return "not JSON: " + text;
}

class RowHandler : public nlohmann::json_sax<json> {
 public:
  RowHandler(std::string_view row, const Place& at, std::span<Field> fields)
      : row_(row), at_(at), fields_(fields) {}

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    names.push_back(name);
    const auto it =
        std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.name == name; });
    field_ = it == fields_.end() ? nullptr : &*it;
    if (field_ && field_->found) at_.fail(str(printable(name), ": given twice"));
    return true;
  }
  bool string(string_t& text) override {
    if (Field* f = value("a text")) {
      if (f->kind != Field::Kind::text || in_list()) mismatch(*f, "a text");
      f->text = std::move(text);
    }
    return true;
  }
  bool number_integer(number_integer_t v) override { return integer(v); }
  bool number_unsigned(number_unsigned_t v) override {
    return integer(static_cast<std::int64_t>(std::min<std::uint64_t>(v, INT64_MAX)));
  }
  bool number_float(number_float_t, const string_t& digits) override {
    return scalar("the number " + digits);
  }
  bool boolean(bool v) override { return scalar(v ? "true" : "false"); }
  bool null() override {
    if (field_ && depth_ == 1) {
      if (field_->required) mismatch(*field_, "null");
      field_ = nullptr;
      return true;
    }
    return scalar("null");
  }
  bool binary(binary_t&) override { return scalar("bytes"); }
  bool start_object(std::size_t) override {
    if (depth_ > 0)
      if (Field* f = value("an object")) mismatch(*f, "an object");
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (Field* f = value("a list"); f && (f->kind != Field::Kind::integers || in_list()))
      mismatch(*f, "a list");
    ++depth_;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const json::exception& e) override {
    fail_at(row_, at_, position == 0 ? 0 : position - 1, told(e.what()));
  }

  std::vector<std::string> names;

 private:
  // The wanted field that a value belongs to, which is now found; null when nobody wants it.
  Field* value(const std::string& kind) {
    if (depth_ == 0) at_.fail(str("the row is ", kind, ", not an object"));
    if (field_) field_->found = true;
    return field_;
  }
  bool in_list() const { return depth_ > 1; }
  bool scalar(const std::string& what) {
    if (Field* f = value(what)) mismatch(*f, what);
    return true;
  }
  bool integer(std::int64_t v) {
    if (field_ == nullptr || field_->kind != Field::Kind::integers || !in_list())
      return scalar("the number " + std::to_string(v));
    field_->integers.push_back(v);
    return true;
  }
  bool close() {
    --depth_;
    if (depth_ == 1) field_ = nullptr;
    return true;
  }
  [[noreturn]] void mismatch(const Field& f, const std::string& got) const {
    const bool integers = f.kind == Field::Kind::integers;
    if (integers && in_list())
      at_.fail(str(printable(f.name), "[", f.integers.size(), "]: ", got, " where an integer belongs"));
    at_.fail(
        str(printable(f.name), ": ", got, " where ", integers ? "a list of integers" : "a text", " belongs"));
  }

  std::string_view row_;
  const Place& at_;
  std::span<Field> fields_;
  Field* field_ = nullptr;  // the wanted field whose value is being read
  int depth_ = 0;
};

std::vector<std::string> parse(std::string_view row, const Place& at, std::span<Field> fields) {
  // The parser takes a zero byte for the end of its input.
  if (const std::size_t nul = row.find('\0'); nul != std::string_view::npos)
    fail_at(row, at, nul, "not JSON: a zero byte");
  RowHandler handler(row, at, fields);
  json::sax_parse(row, &handler);
  return std::move(handler.names);
}

}  // namespace

void read_fields(std::string_view row, const Place& at, std::span<Field> fields) {
  const std::vector<std::string> names = parse(row, at, fields);
  for (const Field& f : fields) {
    if (f.found || !f.required) continue;
    std::string there;
    for (const std::string& name : names) there += (there.empty() ? "" : ", ") + printable(name, 40);
    at.fail(
        str("no \"", printable(f.name), "\"; the row has ", there.empty() ? "nothing" : printable(there)));
  }
}

std::vector<std::string> row_names(std::string_view row, const Place& at) { return parse(row, at, {}); }

}  // namespace ft
