// Methods of lists and objects, and the list of methods by type.
#include <algorithm>

#include "data/chat/jinja/arguments.h"
#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/print.h"

namespace ft::jinja {
namespace {

using A = const Arguments&;

Value refused(Machine& m, const Value&, A) { m.fail("a template may not change a list or object"); }

Value get(Machine& m, const Value& v, A given) {
  const Bound a(m, "get", given, {"key", "default"}, 1);
  if (a[0].text()) m.step_over(*a[0].text());
  const Value* found = v.dict()->find(a[0]);
  return found ? *found : a.has(1) ? a[1] : Value(Value::Any(None{}));
}

Value keys(Machine& m, const Value& v, A) {
  std::vector<Value> out;
  for (const auto& [key, _] : v.dict()->entries()) out.push_back(key);
  return m.list(std::move(out), ListKind::keys);
}
Value values(Machine& m, const Value& v, A) {
  std::vector<Value> out;
  for (const auto& [_, value] : v.dict()->entries()) out.push_back(value);
  return m.list(std::move(out), ListKind::values);
}
Value items(Machine& m, const Value& v, A) {
  std::vector<Value> out;
  for (const auto& [key, value] : v.dict()->entries()) out.push_back(m.list({key, value}, ListKind::tuple));
  return m.list(std::move(out), ListKind::items);
}
Value copy(Machine&, const Value& v, A) { return v; }

Value count_equal(Machine& m, const Value& v, A given) {
  const Bound a(m, "count", given, {"value"}, 1);
  const auto& all = v.list()->items;
  return Value::Any(std::int64_t{
      std::count_if(all.begin(), all.end(), [&](const Value& item) { return equal(m, item, a[0]); })});
}
Value index(Machine& m, const Value& v, A given) {
  const Bound a(m, "index", given, {"value"}, 1);
  const auto& all = v.list()->items;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (equal(m, all[i], a[0])) return Value::Any(static_cast<std::int64_t>(i));
  m.fail("index: the value is not in the list");
}

constexpr Method kDict[] = {{"get", get},
                            {"keys", keys},
                            {"values", values},
                            {"items", items},
                            {"copy", copy},
                            {"clear", refused, true},
                            {"pop", refused, true},
                            {"popitem", refused, true},
                            {"setdefault", refused, true},
                            {"update", refused, true}};
constexpr Method kList[] = {{"count", count_equal},     {"index", index},         {"copy", copy},
                            {"append", refused, true},  {"clear", refused, true}, {"extend", refused, true},
                            {"insert", refused, true},  {"pop", refused, true},   {"remove", refused, true},
                            {"reverse", refused, true}, {"sort", refused, true}};

template <std::size_t n>
const Method* find(const Method (&all)[n], std::string_view name, std::size_t first = n) {
  const auto* const end = all + first;
  const auto* const it = std::find_if(all, end, [&](const Method& method) { return method.name == name; });
  return it == end ? nullptr : it;
}

}  // namespace

const Method* method_of(const Value& value, std::string_view name) {
  if (value.text()) return text_method(name);
  if (value.dict()) return find(kDict, name);
  const List* l = value.list();
  if (!l || l->kind == ListKind::keys || l->kind == ListKind::values || l->kind == ListKind::items)
    return nullptr;
  return l->kind == ListKind::list ? find(kList, name) : find(kList, name, 2);
}

}  // namespace ft::jinja
