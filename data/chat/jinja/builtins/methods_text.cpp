// Python's methods of texts. Positions count characters.
#include <algorithm>

#include "data/chat/jinja/arguments.h"
#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/split.h"
#include "data/chat/jinja/text.h"
#include "data/files/utf8.h"

namespace ft::jinja {
namespace {

using A = const Arguments&;

const std::string& needed(Machine& m, const Bound& a, std::size_t i) {
  const std::string* t = a[i].text();
  if (!t) m.fail("a method of texts takes a text, not " + type_of(a[i]));
  return *t;
}

Value strip(Machine& m, const Value& v, A given, bool left, bool right) {
  const Bound a(m, "strip", given, {"chars"});
  const std::string set = a.has(0) && !a[0].is_none() ? needed(m, a, 0) : "";
  if (a.has(0) && !a[0].is_none() && set.empty()) return v;
  m.step_search(*v.text(), set);
  return m.text(std::string(stripped(*v.text(), set, left, right)));
}

// Byte range of a text between two positions; nullopt if they are outside.
struct Part {
  std::size_t begin, end;
};
std::optional<Part> part_of(Machine& m, const std::string& t, const Bound& a, std::size_t first) {
  if (!a.has(first) && !a.has(first + 1)) return Part{0, t.size()};
  m.step_over(t);
  const std::vector<std::size_t> places = places_of(t);
  const auto size = static_cast<std::int64_t>(places.size()) - 1;
  const auto bound = [&](std::size_t i, std::int64_t otherwise) {
    if (!a.has(i) || a[i].is_none()) return otherwise;
    const std::int64_t given = a.integer(i, 0);
    return given < 0 ? std::max<std::int64_t>(given + size, 0) : given;
  };
  const std::int64_t begin = bound(first, 0), end = std::min(bound(first + 1, size), size);
  if (begin > end) return std::nullopt;
  return Part{places[static_cast<std::size_t>(begin)], places[static_cast<std::size_t>(end)]};
}

std::int64_t found(Machine& m, const Value& v, A given, bool last) {
  const Bound a(m, "find", given, {"sub", "start", "end"}, 1);
  const std::string &t = *v.text(), &sub = needed(m, a, 0);
  m.step_search(t, sub);
  const auto part = part_of(m, t, a, 1);
  if (!part) return -1;
  const std::string_view in = std::string_view(t).substr(part->begin, part->end - part->begin);
  const std::size_t at = last ? in.rfind(sub) : in.find(sub);
  if (at == std::string_view::npos) return -1;
  return length_of(std::string_view(t).substr(0, part->begin + at));
}
Value index(Machine& m, const Value& v, A given, bool last) {
  const std::int64_t at = found(m, v, given, last);
  if (at < 0) m.fail("index: the text is not in it");
  return Value::Any(at);
}

Value count_text(Machine& m, const Value& v, A given) {
  const Bound a(m, "count", given, {"sub", "start", "end"}, 1);
  const std::string &t = *v.text(), &sub = needed(m, a, 0);
  m.step_search(t, sub);
  const auto part = part_of(m, t, a, 1);
  std::int64_t n = 0;
  if (part && sub.empty())
    n = length_of(std::string_view(t).substr(part->begin, part->end - part->begin)) + 1;
  if (part && !sub.empty())
    for (std::size_t i = t.find(sub, part->begin); i != std::string::npos && i + sub.size() <= part->end;
         i = t.find(sub, i + sub.size()))
      ++n;
  return Value::Any(n);
}

Value affix(Machine& m, const Value& v, A given, bool start) {
  const Bound a(m, start ? "startswith" : "endswith", given, {"prefix", "start", "end"}, 1);
  const auto part = part_of(m, *v.text(), a, 1);
  if (!part) return Value::Any(false);
  const std::string_view in = std::string_view(*v.text()).substr(part->begin, part->end - part->begin);
  const auto has = [&](const Value& one) {
    if (!one.text()) m.fail("startswith and endswith take a text, or a tuple of them");
    return start ? in.starts_with(*one.text()) : in.ends_with(*one.text());
  };
  const List* several = a[0].list();
  if (!several || several->kind != ListKind::tuple) return Value::Any(has(a[0]));
  return Value::Any(std::any_of(several->items.begin(), several->items.end(), has));
}

Value replace(Machine& m, const Value& v, A given) {
  const Bound a(m, "replace", given, {"old", "new", "count"}, 2);
  const std::string &t = *v.text(), &old = needed(m, a, 0), &fresh = needed(m, a, 1);
  std::int64_t left = a.integer(2, -1);
  m.step_search(t, old);
  Writer out(m);
  std::size_t at = 0;
  if (old.empty()) {
    for (; at < t.size() && left != 0; --left) {
      const std::size_t n = std::max<std::size_t>(1, utf8_length(t, at));
      out.add(fresh);
      out.add(std::string_view(t).substr(at, n));
      at += n;
    }
    if (left != 0) out.add(fresh);
  } else {
    for (std::size_t i; left != 0 && (i = t.find(old, at)) != std::string::npos; --left) {
      out.add(std::string_view(t).substr(at, i - at));
      out.add(fresh);
      at = i + old.size();
    }
  }
  out.add(std::string_view(t).substr(at));
  return out.take();
}

Value join(Machine& m, const Value& v, A given) {
  const Bound a(m, "join", given, {"iterable"}, 1);
  Writer out(m);
  bool first = true;
  const Value::ListRef all = m.items_of(a[0]);
  for (const Value& item : all->items) {
    if (!item.text()) m.fail("join: an item is " + type_of(item) + ", not a text");
    if (!std::exchange(first, false)) out.add(*v.text());
    out.add(*item.text());
  }
  return out.take();
}

// Pads a text to `width` characters. side: 'l' keeps the text on the left, 'r' on the right.
Value padded(Machine& m, const Value& v, A given, char side) {
  const Bound a(m, "center, ljust and rjust", given, {"width", "fillchar"}, 1);
  const std::string fill = a.has(1) ? needed(m, a, 1) : " ";
  if (length_of(fill) != 1) m.fail("the fill must be one character");
  const std::int64_t width = a.integer(0, 0), room = std::max<std::int64_t>(width - length_of(*v.text()), 0);
  const std::int64_t left = side == 'l' ? 0 : side == 'r' ? room : room / 2 + (room & width & 1);
  m.check_room(room);
  Writer out(m);
  for (std::int64_t i = 0; i < left; ++i) out.add(fill);
  out.add(*v.text());
  for (std::int64_t i = left; i < room; ++i) out.add(fill);
  return out.take();
}

Value zfill(Machine& m, const Value& v, A given) {
  const Bound a(m, "zfill", given, {"width"}, 1);
  const std::string& t = *v.text();
  const std::int64_t room = std::max<std::int64_t>(a.integer(0, 0) - length_of(t), 0);
  const std::size_t sign = t.starts_with('-') || t.starts_with('+') ? 1 : 0;
  Writer out(m);
  out.add(t.substr(0, sign));
  out.add(static_cast<std::size_t>(room), '0');
  out.add(t.substr(sign));
  return out.take();
}

Value without(Machine& m, const Value& v, A given, bool prefix) {
  const Bound a(m, prefix ? "removeprefix" : "removesuffix", given, {"affix"}, 1);
  const std::string &t = *v.text(), &gone = needed(m, a, 0);
  if (prefix ? !t.starts_with(gone) : !t.ends_with(gone)) return v;
  return m.text(prefix ? t.substr(gone.size()) : t.substr(0, t.size() - gone.size()));
}

// Returns true if the text is not empty, and all characters are of that kind.
template <class Is>
Value all(Machine& m, const Value& v, Is&& is) {
  const std::string& t = *v.text();
  m.step_over(t);
  for (std::size_t i = 0; i < t.size(); i += std::max<std::size_t>(1, utf8_length(t, i)))
    if (!is(utf8_code_point(t, i))) return Value::Any(false);
  return Value::Any(!t.empty());
}

// Maps each letter to a case that depends on the character before it.
template <class Map>
Value mapped(Machine& m, const Value& v, Map&& map) {
  const std::string& t = *v.text();
  std::string out;
  bool in_word = false;
  for (std::size_t i = 0; i < t.size(); i += std::max<std::size_t>(1, utf8_length(t, i))) {
    const char32_t c = utf8_code_point(t, i);
    out += utf8_of(map(c, in_word));
    in_word = is_alpha(c);
  }
  return m.text(std::move(out));
}

constexpr Method kMethods[] = {
    {"strip", [](Machine& m, const Value& v, A a) { return strip(m, v, a, true, true); }},
    {"lstrip", [](Machine& m, const Value& v, A a) { return strip(m, v, a, true, false); }},
    {"rstrip", [](Machine& m, const Value& v, A a) { return strip(m, v, a, false, true); }},
    {"split", [](Machine& m, const Value& v, A a) { return split(m, *v.text(), a, false); }},
    {"rsplit", [](Machine& m, const Value& v, A a) { return split(m, *v.text(), a, true); }},
    {"splitlines", [](Machine& m, const Value& v, A a) { return split_lines(m, *v.text(), a); }},
    {"partition", [](Machine& m, const Value& v, A a) { return partition(m, *v.text(), a, false); }},
    {"rpartition", [](Machine& m, const Value& v, A a) { return partition(m, *v.text(), a, true); }},
    {"startswith", [](Machine& m, const Value& v, A a) { return affix(m, v, a, true); }},
    {"endswith", [](Machine& m, const Value& v, A a) { return affix(m, v, a, false); }},
    {"replace", replace},
    {"join", join},
    {"count", count_text},
    {"find", [](Machine& m, const Value& v, A a) { return Value(Value::Any(found(m, v, a, false))); }},
    {"rfind", [](Machine& m, const Value& v, A a) { return Value(Value::Any(found(m, v, a, true))); }},
    {"index", [](Machine& m, const Value& v, A a) { return index(m, v, a, false); }},
    {"rindex", [](Machine& m, const Value& v, A a) { return index(m, v, a, true); }},
    {"upper", [](Machine& m, const Value& v, A) { return m.text(upper(*v.text())); }},
    {"lower", [](Machine& m, const Value& v, A) { return m.text(lower(*v.text())); }},
    {"casefold", [](Machine& m, const Value& v, A) { return m.text(lower(*v.text())); }},
    {"capitalize", [](Machine& m, const Value& v, A) { return m.text(capitalized(*v.text())); }},
    {"title",
     [](Machine& m, const Value& v, A) {
       return mapped(m, v, [](char32_t c, bool in_word) { return in_word ? lower_of(c) : upper_of(c); });
     }},
    {"swapcase",
     [](Machine& m, const Value& v, A) {
       return mapped(m, v, [](char32_t c, bool) { return is_upper(c) ? lower_of(c) : upper_of(c); });
     }},
    {"center", [](Machine& m, const Value& v, A a) { return padded(m, v, a, 'c'); }},
    {"ljust", [](Machine& m, const Value& v, A a) { return padded(m, v, a, 'l'); }},
    {"rjust", [](Machine& m, const Value& v, A a) { return padded(m, v, a, 'r'); }},
    {"zfill", zfill},
    {"removeprefix", [](Machine& m, const Value& v, A a) { return without(m, v, a, true); }},
    {"removesuffix", [](Machine& m, const Value& v, A a) { return without(m, v, a, false); }},
    {"format", [](Machine& m, const Value& v, A a) { return brace_format(m, *v.text(), a); }},
    {"isdigit", [](Machine& m, const Value& v, A) { return all(m, v, is_decimal); }},
    {"isdecimal", [](Machine& m, const Value& v, A) { return all(m, v, is_decimal); }},
    {"isnumeric", [](Machine& m, const Value& v, A) { return all(m, v, is_decimal); }},
    {"isalpha", [](Machine& m, const Value& v, A) { return all(m, v, is_alpha); }},
    {"isalnum", [](Machine& m, const Value& v,
                   A) { return all(m, v, [](char32_t c) { return is_alpha(c) || is_decimal(c); }); }},
    {"isspace", [](Machine& m, const Value& v, A) { return all(m, v, is_white_space); }},
    {"isascii",
     [](Machine& m, const Value& v, A) {
       return Value(
           Value::Any(v.text()->empty() || *all(m, v, [](char32_t c) { return c < 0x80; }).as<bool>()));
     }},
    {"islower",
     [](Machine& m, const Value& v, A) { return Value(Value::Any(test_by_name("lower")(m, v, {}))); }},
    {"isupper",
     [](Machine& m, const Value& v, A) { return Value(Value::Any(test_by_name("upper")(m, v, {}))); }},
};

}  // namespace

const Method* text_method(std::string_view name) {
  for (const Method& method : kMethods)
    if (method.name == name) return &method;
  return nullptr;
}

}  // namespace ft::jinja
