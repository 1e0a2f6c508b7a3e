#include "data/files/json_row.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/files/json.h"

namespace ft {
namespace {

class RowHandler : public JsonEvents {
 public:
  RowHandler(const Place& at, std::span<Field> fields) : at_(at), fields_(fields) {}

  void on_key(std::string& name) override {
    if (depth_ != 1) return;
    names.push_back(name);
    const auto it =
        std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.name == name; });
    field_ = it == fields_.end() ? nullptr : &*it;
    if (field_ && field_->found) at_.fail(str(printable(name), ": given twice"));
  }
  void on_text(std::string& text) override {
    Field* f = value("a string");
    if (!f) return;
    if (f->kind != Field::Kind::text || in_list()) mismatch(*f, "a string");
    f->text = std::move(text);
  }
  void on_integer(std::int64_t v) override {
    Field* f = value("a number");
    if (!f) return;
    if (f->kind != Field::Kind::integers || !in_list()) mismatch(*f, str("the number ", v));
    f->integers.push_back(v);
  }
  void on_unsigned(std::uint64_t v) override {
    on_integer(static_cast<std::int64_t>(std::min<std::uint64_t>(v, INT64_MAX)));
  }
  void on_float(double v) override { other("the number " + json_number(v)); }
  void on_bool(bool v) override { other(v ? "true" : "false"); }
  void on_null() override {
    if (field_ && !in_list() && !field_->required)
      field_ = nullptr;  // as if the field were absent
    else
      other("null");
  }
  void on_object(bool begins) override {
    if (begins && depth_ > 0) other("an object");
    nest(begins);
  }
  void on_array(bool begins) override {
    if (Field* f = begins ? value("a list") : nullptr) {
      if (f->may_be_list && !in_list())
        f->is_list = true;
      else if (f->kind != Field::Kind::integers || in_list())
        mismatch(*f, "a list");
    }
    nest(begins);
  }

  std::vector<std::string> names;

 private:
  // Returns the requested field whose value begins here, and marks it as found; null if the field is not
  // requested, or its list is not read.
  Field* value(const std::string& what) {
    if (depth_ == 0) at_.fail(str("the row is ", what, ", not an object"));
    if (field_) field_->found = true;
    return field_ && !field_->is_list ? field_ : nullptr;
  }
  void other(const std::string& what) {
    if (Field* f = value(what)) mismatch(*f, what);
  }
  void nest(bool begins) {
    depth_ += begins ? 1 : -1;
    if (!begins && depth_ == 1) field_ = nullptr;
  }
  bool in_list() const { return depth_ > 1; }
  [[noreturn]] void mismatch(const Field& f, const std::string& got) const {
    const bool integers = f.kind == Field::Kind::integers;
    if (integers && in_list())
      at_.fail(str(printable(f.name), "[", f.integers.size(), "]: expected an integer, not ", got));
    at_.fail(
        str(printable(f.name), ": expected ", integers ? "a list of integers" : "a string", ", not ", got));
  }

  const Place& at_;
  std::span<Field> fields_;
  Field* field_ = nullptr;  // the wanted field whose value is being read
  int depth_ = 0;
};

constexpr JsonRules kRules{.max_bytes = static_cast<std::size_t>(kLongestRow), .non_finite = NonFinite::kept};

// Throws UserError (input) for a zero byte, because the parser would take it for the end of its input.
void refuse_zero_bytes(std::string_view row, const Place& at) {
  if (row.find('\0') != std::string_view::npos) {
    const std::string_view before = row.substr(0, row.find('\0'));
    Place{at.name, at.line + std::count(before.begin(), before.end(), '\n')}.fail("not JSON: a zero byte");
  }
}

std::vector<std::string> parse(std::string_view row, const Place& at, std::span<Field> fields) {
  refuse_zero_bytes(row, at);
  RowHandler handler(at, fields);
  parse_json(row, {*at.name, at.line}, handler, kRules);
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

Json read_row(std::string_view row, const Place& at, NonFinite non_finite) {
  refuse_zero_bytes(row, at);
  JsonRules rules = kRules;
  rules.non_finite = non_finite;
  Json tree = parse_json(row, {*at.name, at.line}, rules);
  if (!tree.is_object()) at.fail("the row is " + json_excerpt(tree) + ", not an object");
  return tree;
}

std::vector<std::string> row_names(std::string_view row, const Place& at) { return parse(row, at, {}); }

}  // namespace ft
