// Evaluates x.name, x[i] and x[i:j].
#include <algorithm>

#include "data/chat/jinja/expression.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/safe.h"
#include "data/chat/jinja/text.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

[[noreturn]] void fail_undefined(Machine& m, const Value& value) { m.fail(type_of(value) + ", is used"); }

// Returns the attribute that Python's type has; an object's keys are not searched.
std::optional<Value> own_attribute(Machine& m, const Value& of, std::string_view name) {
  if (const Method* method = method_of(of, name)) {
    if (method->changes) return Value::undefined(name);  // as in the sandbox
    if (of.is_safe()) return safe_method(m, name, method->body, of);
    return m.object(std::make_shared<Function>(std::string(name), method->body, of));
  }
  if (Object* o = of.object()) return o->attribute(m, name);
  const List* l = of.list();
  if (l && l->kind == ListKind::group && l->items.size() == 2) {
    if (name == "grouper") return l->items[0];
    if (name == "list") return l->items[1];
  }
  return std::nullopt;
}

std::optional<Value> own_item(Machine& m, const Value& of, const Value& at) {
  if (const Dict* d = of.dict()) {
    if (at.text()) m.step_over(*at.text());
    const Value* found = d->find(at);
    return found ? std::optional(*found) : std::nullopt;
  }
  const auto index = at.integer();
  if (!index) return std::nullopt;
  if (const List* l = of.list()) {
    using enum ListKind;
    if (l->kind == keys || l->kind == values || l->kind == items) return std::nullopt;
    const auto size = static_cast<std::int64_t>(l->items.size());
    const std::int64_t i = *index < 0 ? *index + size : *index;
    return i >= 0 && i < size ? std::optional(l->items[static_cast<std::size_t>(i)]) : std::nullopt;
  }
  if (const std::string* t = of.text()) {
    m.step_over(*t);
    const auto places = places_of(*t);
    const auto size = static_cast<std::int64_t>(places.size()) - 1;
    const std::int64_t i = *index < 0 ? *index + size : *index;
    if (i < 0 || i >= size) return std::nullopt;
    const std::size_t begin = places[static_cast<std::size_t>(i)],
                      end = places[static_cast<std::size_t>(i) + 1];
    return m.text(t->substr(begin, end - begin), of.is_safe());
  }
  return std::nullopt;
}

bool is_internal(std::string_view name) { return name.starts_with("__"); }

}  // namespace

Value attribute_of(Machine& m, const Value& of, std::string_view name) {
  if (of.is_undefined()) fail_undefined(m, of);
  if (!is_internal(name))
    if (auto own = own_attribute(m, of, name)) return *own;
  if (const Dict* d = of.dict())
    if (const Value* found = d->find(name); found && !is_internal(name)) return *found;
  return Value::undefined(name);
}

Value item_of(Machine& m, const Value& of, const Value& at) {
  if (of.is_undefined()) fail_undefined(m, of);
  if (auto own = own_item(m, of, at)) return *own;
  const std::string* name = at.text();
  if (name && !is_internal(*name))
    if (auto own = own_attribute(m, of, *name)) return *own;
  return Value::undefined(printable(name ? *name : str_of(m, at), 60));
}

namespace {

// Returns the indices that the slice begin:end:step selects of `size` items, as in Python.
std::vector<std::size_t> places_taken(Machine& m, std::int64_t size, const Value& from, const Value& to,
                                      const Value& by) {
  const auto number = [&](const Value& v) -> std::optional<std::int64_t> {
    if (v.is_none()) return std::nullopt;
    if (!v.integer()) m.fail("a slice's bounds must be integers, one is " + type_of(v));
    return v.integer();
  };
  const std::int64_t step = number(by).value_or(1);
  if (step == 0) m.fail("a slice's step must not be 0");
  const auto bound = [&](const Value& v, std::int64_t otherwise) {
    const auto given = number(v);
    if (!given) return otherwise;
    const std::int64_t i = *given < 0 ? *given + size : *given;
    return step > 0 ? std::clamp(i, std::int64_t{0}, size) : std::clamp(i, std::int64_t{-1}, size - 1);
  };
  const std::int64_t begin = bound(from, step > 0 ? 0 : size - 1), end = bound(to, step > 0 ? size : -1);
  std::vector<std::size_t> places;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    places.push_back(static_cast<std::size_t>(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return places;
}

}  // namespace

Value sliced(Machine& m, const Value& of, const Value& from, const Value& to, const Value& by) {
  if (of.is_undefined()) fail_undefined(m, of);
  if (const List* l = of.list()) {
    using enum ListKind;
    if (l->kind == keys || l->kind == values || l->kind == items) m.fail("a slice of an object's view");
    std::vector<Value> taken;
    for (const std::size_t i : places_taken(m, static_cast<std::int64_t>(l->items.size()), from, to, by))
      taken.push_back(l->items[i]);
    return m.list(std::move(taken), l->kind == group ? tuple : l->kind);
  }
  const std::string* t = of.text();
  if (!t) m.fail("a slice of " + type_of(of));
  m.step(static_cast<std::int64_t>(t->size()) / 16);
  const auto places = places_of(*t);
  std::string taken;
  for (const std::size_t i : places_taken(m, static_cast<std::int64_t>(places.size()) - 1, from, to, by))
    taken.append(*t, places[i], places[i + 1] - places[i]);
  return m.text(std::move(taken), of.is_safe());
}

}  // namespace ft::jinja
