// Filters of lists and objects: sorting, grouping, slicing, joining.
#include <algorithm>
#include <span>

#include "data/chat/jinja/arguments.h"
#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/expression.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/select.h"
#include "data/chat/jinja/text.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

using A = const Arguments&;

Value folded(Machine& m, const Value& v) { return v.text() ? m.text(lower(*v.text())) : v; }

Value length_filter(Machine& m, const Value& v, A) {
  if (v.text()) m.step_over(*v.text());
  const auto n = length(v);
  if (!n) m.fail(type_of(v) + " has no length");
  return Value::Any(*n);
}

Value first(Machine& m, const Value& v, A) {
  const Value::ListRef all = m.items_of(v);
  return all->items.empty() ? Value::undefined("the first item of nothing") : all->items.front();
}

Value last(Machine& m, const Value& v, A) {
  if (v.object()) m.fail("last: a generator has no last item; make it a list first");
  const Value::ListRef all = m.items_of(v);
  return all->items.empty() ? Value::undefined("the last item of nothing") : all->items.back();
}

Value list(Machine& m, const Value& v, A) {
  const Value::ListRef all = m.items_of(v);
  return m.list(all->items);
}

Value reverse(Machine& m, const Value& v, A) {
  const Value::ListRef all = m.items_of(v);
  std::vector<Value> items = all->items;
  std::reverse(items.begin(), items.end());
  if (!v.text()) return m.generator(std::move(items));
  Writer out(m);
  for (const Value& c : items) out.add(*c.text());
  return out.take();
}

Value join(Machine& m, const Value& v, A given) {
  const Bound a(m, "join", given, {"d", "attribute"});
  const std::string between = a.text(0, "");
  const Value::ListRef all = m.items_of(v);
  Writer out(m);
  for (std::size_t i = 0; i < all->items.size(); ++i) {
    if (i) out.add(between);
    write_str(m, out, a.has(1) ? by_path(m, all->items[i], a[1]) : all->items[i]);
  }
  return out.take();
}

// An item with the key that it is sorted by.
struct Keyed {
  Value key, item;
};
std::vector<Keyed> keyed(Machine& m, const Value& v, const Value& attribute, bool with_case,
                         const Value& otherwise = {}) {
  std::vector<Keyed> out;
  const Value::ListRef all = m.items_of(v);
  for (const Value& item : all->items) {
    Value key = by_path(m, item, attribute, otherwise);
    out.push_back({with_case ? key : folded(m, key), item});
  }
  return out;
}
void sort(Machine& m, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(m, b.key, a.key) : less(m, a.key, b.key);
  });
}
Value items_in(Machine& m, const std::vector<Keyed>& items) {
  std::vector<Value> out;
  for (const Keyed& k : items) out.push_back(k.item);
  return m.list(std::move(out));
}

// Sorts by an attribute, or by several: sort(attribute='a,b').
Value sort_filter(Machine& m, const Value& v, A given) {
  const Bound a(m, "sort", given, {"reverse", "case_sensitive", "attribute"});
  const bool with_case = a.flag(1, false);
  const std::string* paths = a[2].text();
  if (!paths || paths->find(',') == std::string::npos) {
    auto items = keyed(m, v, a[2], with_case);
    // Keys are lists, as in Jinja, so equal values need no order.
    for (Keyed& k : items) k.key = m.list({k.key});
    sort(m, items, a.flag(0, false));
    return items_in(m, items);
  }
  std::vector<Keyed> items;
  const Value::ListRef all = m.items_of(v);
  for (const Value& item : all->items) {
    std::vector<Value> key;
    for (std::size_t at = 0; at != std::string::npos;) {
      const std::size_t comma = paths->find(',', at);
      const Value one = by_path(m, item, m.text(paths->substr(at, comma - at)));
      key.push_back(with_case ? one : folded(m, one));
      at = comma == std::string::npos ? comma : comma + 1;
    }
    items.push_back({m.list(std::move(key)), item});
  }
  sort(m, items, a.flag(0, false));
  return items_in(m, items);
}

Value unique(Machine& m, const Value& v, A given) {
  const Bound a(m, "unique", given, {"case_sensitive", "attribute"});
  Dict seen;
  std::vector<Value> out;
  for (Keyed& k : keyed(m, v, a[1], a.flag(0, false))) {
    if (seen.find(k.key)) continue;
    if (!seen.set(k.key, {})) m.fail("unique: " + type_of(k.key) + " cannot be compared");
    out.push_back(std::move(k.item));
  }
  return m.generator(std::move(out));
}

Value extreme(Machine& m, const Value& v, A given, bool most) {
  const Bound a(m, most ? "max" : "min", given, {"case_sensitive", "attribute"});
  const auto items = keyed(m, v, a[1], a.flag(0, false));
  if (items.empty()) return Value::undefined("the largest or smallest of nothing");
  const Keyed* best = &items[0];
  for (const Keyed& k : std::span(items).subspan(1))
    if (most ? less(m, best->key, k.key) : less(m, k.key, best->key)) best = &k;
  return best->item;
}

Value dictsort(Machine& m, const Value& v, A given) {
  const Bound a(m, "dictsort", given, {"case_sensitive", "by", "reverse"});
  const std::string by = a.text(1, "key");
  if (by != "key" && by != "value") m.fail("dictsort: `by` must be key or value");
  if (!v.dict()) m.fail("dictsort: " + type_of(v) + " is not an object");
  std::vector<Keyed> items;
  for (const auto& [key, value] : v.dict()->entries()) {
    const Value& of = by == "key" ? key : value;
    items.push_back({a.flag(0, false) ? of : folded(m, of), m.list({key, value}, ListKind::tuple)});
  }
  sort(m, items, a.flag(2, false));
  return items_in(m, items);
}

Value groupby(Machine& m, const Value& v, A given) {
  const Bound a(m, "groupby", given, {"attribute", "default", "case_sensitive"}, 1);
  auto items = keyed(m, v, a[0], a.flag(2, false), a[1]);
  sort(m, items, false);
  std::vector<Value> groups;
  for (std::size_t i = 0; i < items.size();) {
    std::vector<Value> own;
    const std::size_t begin = i;
    for (; i < items.size() && equal(m, items[i].key, items[begin].key); ++i) own.push_back(items[i].item);
    if (i == begin) own.push_back(items[i++].item);  // a key that does not equal itself (NaN)
    const Value name = by_path(m, items[begin].item, a[0], a[1]);
    groups.push_back(m.list({name, m.list(std::move(own))}, ListKind::group));
  }
  return m.list(std::move(groups));
}

Value items_filter(Machine& m, const Value& v, A) {
  if (v.is_undefined()) return m.generator({});
  if (!v.dict()) m.fail("items: " + type_of(v) + " is not an object");
  std::vector<Value> out;
  for (const auto& [key, value] : v.dict()->entries()) out.push_back(m.list({key, value}, ListKind::tuple));
  return m.generator(std::move(out));
}

std::int64_t count_of(Machine& m, const Bound& a) {
  const std::int64_t n = a.integer(0, 0);
  if (n < 1) m.fail("batch and slice take a number from 1");
  return n;
}

Value batch(Machine& m, const Value& v, A given) {
  const Bound a(m, "batch", given, {"linecount", "fill_with"}, 1);
  const auto n = static_cast<std::size_t>(count_of(m, a));
  const bool fills = a.has(1) && !a[1].is_none();
  const Value::ListRef all = m.items_of(v);
  std::vector<Value> rows;
  for (std::size_t i = 0; i < all->items.size(); i += std::min(n, all->items.size() - i)) {
    const auto begin = all->items.begin() + static_cast<std::ptrdiff_t>(i);
    std::vector<Value> row(begin, begin + static_cast<std::ptrdiff_t>(std::min(n, all->items.size() - i)));
    if (fills)
      m.check_room(static_cast<std::int64_t>(std::min<std::size_t>(n, INT64_MAX / 64) * sizeof(Value)));
    if (fills) row.resize(n, a[1]);
    rows.push_back(m.list(std::move(row)));
  }
  return m.generator(std::move(rows));
}

Value slice_filter(Machine& m, const Value& v, A given) {
  const Bound a(m, "slice", given, {"slices", "fill_with"}, 1);
  const std::int64_t n = count_of(m, a);
  const Value::ListRef all = m.items_of(v);
  const auto size = static_cast<std::int64_t>(all->items.size());
  m.check_room(std::min(n, INT64_MAX / 256) * 128);
  std::vector<Value> columns;
  auto at = all->items.begin();
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t own = size / n + (i < size % n);
    std::vector<Value> column(at, at + own);
    at += own;
    if (a.has(1) && !a[1].is_none() && i >= size % n) column.push_back(a[1]);
    columns.push_back(m.list(std::move(column)));
  }
  return m.generator(std::move(columns));
}

Value otherwise(Machine& m, const Value& v, A given) {
  const Bound a(m, "default", given, {"default_value", "boolean"});
  const bool gone = v.is_undefined() || (a.flag(1, false) && !truth(v));
  return !gone ? v : a.has(0) ? a[0] : m.text("");
}

Value attr(Machine& m, const Value& v, A given) {
  const Bound a(m, "attr", given, {"name"}, 1);
  const std::string name = a.text(0, "");
  return v.dict() && !method_of(v, name) ? Value::undefined(name) : attribute_of(m, v, name);
}

constexpr NamedFilter kListFilters[] = {
    {"length", bare<length_filter>},
    {"count", bare<length_filter>},
    {"first", bare<first>},
    {"last", bare<last>},
    {"list", bare<list>},
    {"reverse", bare<reverse>},
    {"join", join},
    {"sort", sort_filter},
    {"unique", unique},
    {"dictsort", dictsort},
    {"groupby", groupby},
    {"items", bare<items_filter>},
    {"batch", batch},
    {"slice", slice_filter},
    {"default", otherwise},
    {"d", otherwise},
    {"attr", attr},
    {"max", [](Machine& m, const Value& v, A given) { return extreme(m, v, given, true); }},
    {"min", [](Machine& m, const Value& v, A given) { return extreme(m, v, given, false); }},
};

}  // namespace

Filter list_filter(std::string_view name) {
  for (const NamedFilter& f : kListFilters)
    if (f.name == name) return f.filter;
  return nullptr;
}

}  // namespace ft::jinja
