#include "data/chat/jinja/compare.h"

#include <algorithm>

#include "data/chat/jinja/print.h"
#include "data/chat/jinja/text.h"

namespace ft::jinja {
namespace {

bool is_tuple(const List& l) { return l.kind == ListKind::tuple || l.kind == ListKind::group; }

bool equal_lists(Machine& m, const List& a, const List& b) {
  if (a.items.size() != b.items.size() || (a.kind != b.kind && !(is_tuple(a) && is_tuple(b)))) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i)
    if (!equal(m, a.items[i], b.items[i])) return false;
  return true;
}

bool equal_dicts(Machine& m, const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.find(key);
    if (!other || !equal(m, value, *other)) return false;
  }
  return true;
}

}  // namespace

bool truth(const Value& value) {
  if (const auto* b = value.as<bool>()) return *b;
  if (const auto v = value.number()) return *v != 0;
  if (value.is_undefined() || value.is_none()) return false;
  if (const std::string* t = value.text()) return !t->empty();
  if (const List* l = value.list()) return !l->items.empty();
  if (const Dict* d = value.dict()) return !d->entries().empty();
  return true;
}

bool same(const Value& a, const Value& b) {
  if (a.as<bool>() && b.as<bool>()) return *a.as<bool>() == *b.as<bool>();
  if (a.as<std::int64_t>() && b.as<std::int64_t>()) return *a.as<std::int64_t>() == *b.as<std::int64_t>();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.text() || b.text()) return a.text() == b.text();
  if (a.list() || b.list()) return a.list() == b.list();
  if (a.dict() || b.dict()) return a.dict() == b.dict();
  return a.object() && a.object() == b.object();
}

bool equal(Machine& m, const Value& a, const Value& b) {
  const Machine::Level level(m, m.line());
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.number() && b.number()) return *a.number() == *b.number();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.text() && b.text()) {
    m.step_over(*a.text());
    return *a.text() == *b.text();
  }
  if (a.list() && b.list()) return equal_lists(m, *a.list(), *b.list());
  if (a.dict() && b.dict()) return equal_dicts(m, *a.dict(), *b.dict());
  return same(a, b);
}

bool less(Machine& m, const Value& a, const Value& b) {
  const Machine::Level level(m, m.line());
  if (a.integer() && b.integer()) return *a.integer() < *b.integer();
  if (a.number() && b.number()) return *a.number() < *b.number();
  if (a.text() && b.text()) {
    m.step_over(*a.text());
    return *a.text() < *b.text();  // bytes of UTF-8 are ordered like characters
  }
  const List *x = a.list(), *y = b.list();
  const auto ordered = [](const List* l) { return l && (is_tuple(*l) || l->kind == ListKind::list); };
  if (!ordered(x) || !ordered(y) || is_tuple(*x) != is_tuple(*y))
    m.fail("there is no order between " + type_of(a) + " and " + type_of(b));
  const std::size_t n = std::min(x->items.size(), y->items.size());
  for (std::size_t i = 0; i < n; ++i)
    if (!equal(m, x->items[i], y->items[i])) return less(m, x->items[i], y->items[i]);
  return x->items.size() < y->items.size();
}

bool contains(Machine& m, const Value& in, const Value& what) {
  if (const std::string* t = in.text()) {
    if (!what.text()) m.fail("`in` a text: the value on its left must be a text, is " + type_of(what));
    m.step_search(*t, *what.text());
    return t->find(*what.text()) != std::string::npos;
  }
  if (const Dict* d = in.dict()) {
    if (what.text()) m.step_over(*what.text());
    return d->find(what) != nullptr;
  }
  const Value::ListRef items = m.items_of(in);
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& item) { return equal(m, item, what); });
}

std::optional<std::int64_t> length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const std::string* t = value.text()) return length_of(*t);
  if (const List* l = value.list()) return static_cast<std::int64_t>(l->items.size());
  if (const Dict* d = value.dict()) return static_cast<std::int64_t>(d->entries().size());
  return std::nullopt;
}

}  // namespace ft::jinja
