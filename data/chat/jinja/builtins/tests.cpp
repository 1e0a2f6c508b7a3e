// Tests, the names after `is`.
#include <algorithm>

#include "data/chat/jinja/arguments.h"
#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/expression.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/text.h"
#include "data/files/utf8.h"

namespace ft::jinja {
namespace {

const Value& other(Machine& m, const char* test, const Arguments& given) {
  if (given.values.size() != 1 || !given.named.empty()) m.fail(std::string(test) + ": it takes one value");
  return given.values[0];
}

// Returns true if the division `of` by `by` leaves this rest.
bool leaves(Machine& m, const Value& of, const Value& by, std::int64_t rest) {
  if (!of.is_number() || !by.is_number()) m.fail("even, odd and divisibleby are for numbers");
  return equal(m, calculated(m, Operator::modulo, of, by), Value::Any(rest));
}

// Returns true if there are letters, and all have this case.
bool all_letters(const std::string& text, bool (*is)(char32_t), bool (*is_other)(char32_t)) {
  bool any = false;
  for (std::size_t i = 0; i < text.size(); i += std::max<std::size_t>(1, utf8_length(text, i))) {
    const char32_t c = utf8_code_point(text, i);
    if (is_other(c)) return false;
    any = any || is(c);
  }
  return any;
}

bool is_iterable(const Value& v) {
  return v.is_undefined() || v.text() || v.list() || v.dict() || dynamic_cast<Generator*>(v.object());
}

bool is_sequence(const Value& v) {
  if (v.is_undefined() || v.text() || v.dict()) return true;
  const List* l = v.list();
  return l && l->kind != ListKind::keys && l->kind != ListKind::values && l->kind != ListKind::items;
}

Value two() { return Value::Any(std::int64_t{2}); }

using A = const Arguments&;
constexpr NamedTest kTests[] = {
    {"boolean", [](Machine&, const Value& v, A) { return v.as<bool>() != nullptr; }},
    {"callable",
     [](Machine&, const Value& v, A) { return v.is_undefined() || (v.object() && v.object()->callable()); }},
    {"defined", [](Machine&, const Value& v, A) { return !v.is_undefined(); }},
    {"undefined", [](Machine&, const Value& v, A) { return v.is_undefined(); }},
    {"divisibleby",
     [](Machine& m, const Value& v, A a) { return leaves(m, v, other(m, "divisibleby", a), 0); }},
    {"eq", [](Machine& m, const Value& v, A a) { return equal(m, v, other(m, "eq", a)); }},
    {"ne", [](Machine& m, const Value& v, A a) { return !equal(m, v, other(m, "ne", a)); }},
    {"lt", [](Machine& m, const Value& v, A a) { return less(m, v, other(m, "lt", a)); }},
    {"le", [](Machine& m, const Value& v, A a) { return !less(m, other(m, "le", a), v); }},
    {"gt", [](Machine& m, const Value& v, A a) { return less(m, other(m, "gt", a), v); }},
    {"ge", [](Machine& m, const Value& v, A a) { return !less(m, v, other(m, "ge", a)); }},
    {"in", [](Machine& m, const Value& v, A a) { return contains(m, other(m, "in", a), v); }},
    {"even", [](Machine& m, const Value& v, A) { return leaves(m, v, two(), 0); }},
    {"odd", [](Machine& m, const Value& v, A) { return leaves(m, v, two(), 1); }},
    {"none", [](Machine&, const Value& v, A) { return v.is_none(); }},
    {"true", [](Machine&, const Value& v, A) { return v.as<bool>() && *v.as<bool>(); }},
    {"false", [](Machine&, const Value& v, A) { return v.as<bool>() && !*v.as<bool>(); }},
    {"integer", [](Machine&, const Value& v, A) { return v.as<std::int64_t>() != nullptr; }},
    {"float", [](Machine&, const Value& v, A) { return v.as<double>() != nullptr; }},
    {"number", [](Machine&, const Value& v, A) { return v.is_number(); }},
    {"string", [](Machine&, const Value& v, A) { return v.text() != nullptr; }},
    {"mapping", [](Machine&, const Value& v, A) { return v.dict() != nullptr; }},
    {"sequence", [](Machine&, const Value& v, A) { return is_sequence(v); }},
    {"iterable", [](Machine&, const Value& v, A) { return is_iterable(v); }},
    {"lower", [](Machine& m, const Value& v, A) { return all_letters(str_of(m, v), is_lower, is_upper); }},
    {"upper", [](Machine& m, const Value& v, A) { return all_letters(str_of(m, v), is_upper, is_lower); }},
    {"sameas", [](Machine& m, const Value& v, A a) { return same(v, other(m, "sameas", a)); }},
    {"escaped", [](Machine&, const Value& v, A) { return v.is_safe(); }},
    {"filter", [](Machine&, const Value& v, A) { return v.text() && filter_by_name(*v.text()) != nullptr; }},
    {"test", [](Machine&, const Value& v, A) { return v.text() && test_by_name(*v.text()) != nullptr; }},
};

}  // namespace

Test test_by_name(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kOther[] = {
      {"equalto", "eq"}, {"==", "eq"}, {"!=", "ne"},          {"lessthan", "lt"}, {"<", "lt"},
      {"<=", "le"},      {">=", "ge"}, {"greaterthan", "gt"}, {">", "gt"}};
  for (const auto& [alias, usual] : kOther)
    if (alias == name) name = usual;
  const auto* const it =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const NamedTest& t) { return t.name == name; });
  return it == std::end(kTests) ? nullptr : it->test;
}

}  // namespace ft::jinja
