// Filters map, select, reject and similar ones.
#include "data/chat/jinja/select.h"

#include <algorithm>

#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/expression.h"
#include "data/chat/jinja/print.h"
#include "engine/core/error.h"

namespace ft::jinja {

Value by_path(Machine& m, const Value& item, const Value& path, const Value& otherwise) {
  if (path.is_undefined() || path.is_none()) return item;
  const auto or_otherwise = [&](Value v) {
    return v.is_undefined() && !otherwise.is_undefined() && !otherwise.is_none() ? otherwise : v;
  };
  const std::string* names = path.text();
  if (!names) return or_otherwise(item_of(m, item, path));
  Value out = item;
  for (std::size_t at = 0; at != std::string::npos;) {
    const std::size_t dot = names->find('.', at);
    const std::string name = names->substr(at, dot == std::string::npos ? dot : dot - at);
    const bool number =
        !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
    out = or_otherwise(
        item_of(m, out, number ? Value(Value::Any(std::int64_t{std::stoi(name)})) : m.text(name)));
    at = dot == std::string::npos ? dot : dot + 1;
  }
  return out;
}

namespace {

using A = const Arguments&;

// Returns the arguments after the first `used`.
Arguments behind(A given, std::size_t used) {
  return {{given.values.begin() + static_cast<std::ptrdiff_t>(std::min(used, given.values.size())),
           given.values.end()},
          given.named};
}

// Returns the items whose test, applied to the item or to an attribute, gives `wanted`.
Value selected(Machine& m, const Value& v, A given, bool by_attribute, bool wanted) {
  const std::size_t used = by_attribute ? 1 : 0;
  if (given.values.size() < used) m.fail("selectattr and rejectattr take the name of an attribute");
  Test test = nullptr;
  if (given.values.size() > used) {
    const std::string name = str_of(m, given.values[used]);
    test = test_by_name(name);
    if (!test) m.fail("there is no test " + printable(name, 40));
  }
  const Arguments rest = behind(given, used + 1);
  std::vector<Value> out;
  if (!truth(v)) return m.generator({});  // also if v is none
  const Value::ListRef all = m.items_of(v);
  for (const Value& item : all->items) {
    m.step();
    const Value of = by_attribute ? by_path(m, item, given.values[0]) : item;
    if ((test ? test(m, of, rest) : truth(of)) == wanted) out.push_back(item);
  }
  return m.generator(std::move(out));
}

Value map(Machine& m, const Value& v, A given) {
  std::vector<Value> out;
  if (given.values.empty()) {
    Value path, otherwise;
    for (const auto& [name, value] : given.named) {
      if (name != "attribute" && name != "default") m.fail("map: it has no argument " + printable(name, 40));
      (name == "attribute" ? path : otherwise) = value;
    }
    if (path.is_undefined()) m.fail("map takes the name of a filter, or attribute=");
    if (!truth(v)) return m.generator({});  // also if v is none
    const Value::ListRef all = m.items_of(v);
    for (const Value& item : all->items) {
      m.step();
      out.push_back(by_path(m, item, path, otherwise));
    }
    return m.generator(std::move(out));
  }
  const std::string name = str_of(m, given.values[0]);
  const Filter filter = filter_by_name(name);
  if (!filter) m.fail("there is no filter " + printable(name, 40));
  const Arguments rest = behind(given, 1);
  if (!truth(v)) return m.generator({});
  const Value::ListRef all = m.items_of(v);
  for (const Value& item : all->items) {
    const Machine::Level level(m, m.line());
    out.push_back(filter(m, item, rest));
  }
  return m.generator(std::move(out));
}

constexpr NamedFilter kSelections[] = {
    {"map", map},
    {"select", [](Machine& m, const Value& v, A given) { return selected(m, v, given, false, true); }},
    {"reject", [](Machine& m, const Value& v, A given) { return selected(m, v, given, false, false); }},
    {"selectattr", [](Machine& m, const Value& v, A given) { return selected(m, v, given, true, true); }},
    {"rejectattr", [](Machine& m, const Value& v, A given) { return selected(m, v, given, true, false); }},
};

}  // namespace

Filter selecting_filter(std::string_view name) {
  for (const NamedFilter& f : kSelections)
    if (f.name == name) return f.filter;
  return nullptr;
}

}  // namespace ft::jinja
