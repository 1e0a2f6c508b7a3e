// Filters that return texts.
#include <algorithm>

#include "data/chat/jinja/arguments.h"
#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/safe.h"
#include "data/chat/jinja/text.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

using A = const Arguments&;

Value to_json(Machine& m, const Value& v, A given) {
  const Bound a(m, "tojson", given, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonForm form{.ascii = a.flag(0, false), .sorted = a.flag(3, false)};
  if (a.has(1) && !a[1].is_none()) {
    form.indented = true;
    form.item = ",";
    if (const std::string* t = a[1].text()) {
      form.indent = *t;
    } else {
      const std::int64_t n = a.integer(1, 0);
      m.check_room(n);
      form.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)), ' ');
    }
  }
  if (a.has(2) && !a[2].is_none()) {
    const Value::ListRef two = m.items_of(a[2]);
    if (two->items.size() != 2) m.fail("tojson: separators must be two texts");
    form.item = str_of(m, two->items[0]);
    form.key = str_of(m, two->items[1]);
  }
  Writer out(m);
  write_json(m, out, v, form);
  return out.take();
}

Value trim(Machine& m, const Value& v, A given) {
  const Bound a(m, "trim", given, {"chars"});
  const std::string set = a.has(0) && !a[0].is_none() ? a.text(0, "") : "";
  const std::string text = str_of(m, v);
  m.step_search(text, set);
  return m.text(std::string(stripped(text, set, true, true)));
}

// Capitalizes words; a word begins after white space, -, ( and similar characters.
Value title(Machine& m, const Value& v, A) {
  std::string out;
  bool begins = true;
  const std::string text = str_of(m, v);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = std::max<std::size_t>(1, utf8_length(text, i));
    const char32_t c = utf8_code_point(text, i);
    out += utf8_of(begins ? upper_of(c) : lower_of(c));
    begins = is_white_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    i += n;
  }
  return m.text(std::move(out));
}

Value replace(Machine& m, const Value& v, A given) {
  const Bound a(m, "replace", given, {"old", "new", "count"}, 2);
  Arguments with{{m.text(a.text(0, "")), m.text(a.text(1, ""))}, {}};
  if (a.has(2) && !a[2].is_none()) with.values.push_back(a[2]);
  const Value text = m.text(str_of(m, v));
  return method_of(text, "replace")->body(m, text, with);
}

Value indent(Machine& m, const Value& v, A given) {
  const Bound a(m, "indent", given, {"width", "first", "blank"});
  if (!v.text()) m.fail("indent: " + type_of(v) + " is not a text");
  std::string margin;
  if (a.has(0) && a[0].text()) {
    margin = *a[0].text();
  } else {
    const std::int64_t n = std::max<std::int64_t>(a.integer(0, 4), 0);
    m.check_room(n);
    margin = std::string(static_cast<std::size_t>(n), ' ');
  }
  const bool first = a.flag(1, false), blank = a.flag(2, false);
  const std::string text = str_of(m, v);
  Writer out(m);
  std::string_view rest = text;
  for (bool begins = true; begins || !rest.empty(); begins = false) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (begins ? first : blank || !line.empty()) out.add(margin);
    out.add(line);
    if (end == std::string_view::npos) break;
    out.add("\n");
    rest.remove_prefix(end + 1);
    if (rest.empty() && blank) out.add(margin);
  }
  return out.take();
}

Value center(Machine& m, const Value& v, A given) {
  const Bound a(m, "center", given, {"width"});
  const Value text = m.text(str_of(m, v));
  return method_of(text, "center")->body(m, text, {{Value::Any(a.integer(0, 80))}, {}});
}

Value truncate(Machine& m, const Value& v, A given) {
  const Bound a(m, "truncate", given, {"length", "killwords", "end", "leeway"});
  const std::string end = a.text(2, "...");
  const std::int64_t most = a.integer(0, 255), leeway = a.has(3) && !a[3].is_none() ? a.integer(3, 5) : 5;
  const auto end_length = length_of(end);
  if (most < end_length || leeway < 0)
    m.fail("truncate: the length must hold the end, and leeway be 0 or more");
  if (v.is_undefined()) return v;
  const std::int64_t size = v.text()   ? length_of(*v.text())
                            : v.list() ? std::ssize(v.list()->items)
                            : v.dict() ? std::ssize(v.dict()->entries())
                                       : -1;
  if (size >= 0 && size - leeway <= most) return v;
  if (!v.text()) m.fail("truncate: " + type_of(v) + " is not a text");
  const std::string& text = *v.text();
  std::string cut = text.substr(0, places_of(text)[static_cast<std::size_t>(most - end_length)]);
  if (!a.flag(1, false)) cut = cut.substr(0, cut.rfind(' '));
  return m.text(cut + end);
}

Value escape(Machine& m, const Value& v, A) { return escaped(m, v); }
Value escape_again(Machine& m, const Value& v, A) { return escaped(m, m.text(str_of(m, v))); }
Value safe(Machine& m, const Value& v, A) { return marked_safe(m, m.text(str_of(m, v))); }

// Wraps a filter that keeps markupsafe's mark.
template <Filter filter>
Value kept(Machine& m, const Value& v, A given) {
  const Value y = filter(m, v, given);
  return v.is_safe() ? marked_safe(m, y) : y;
}

Value urlencode(Machine& m, const Value& v, A) {
  static constexpr std::string_view kSafe = "_.-~/";
  Writer out(m);
  const auto write = [&](const std::string& text, bool slash) {
    for (const char c : text) {
      const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (kSafe.find(c) != std::string_view::npos && (slash || c != '/'));
      const auto byte = static_cast<unsigned char>(c);
      if (c == ' ' && !slash)
        out.add("+");
      else
        out.add(plain ? std::string{c}
                      : std::string{'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 0xF]});
    }
  };
  if (v.text() || !(v.dict() || v.list())) {
    write(str_of(m, v), true);
    return out.take();
  }
  const Value pairs = v.dict() ? method_of(v, "items")->body(m, v, {}) : v;
  const char* sign = "";
  const Value::ListRef all = m.items_of(pairs);
  for (const Value& pair : all->items) {
    const Value::ListRef two = m.items_of(pair);
    if (two->items.size() != 2) m.fail("urlencode: an item is not a pair");
    out.add(std::exchange(sign, "&"));
    write(str_of(m, two->items[0]), false);
    out.add("=");
    write(str_of(m, two->items[1]), false);
  }
  return out.take();
}

Value format(Machine& m, const Value& v, A given) {
  if (v.is_safe()) m.fail("format of a text that is marked safe is not supported");
  if (!given.values.empty() && !given.named.empty()) m.fail("format: values by place and by name");
  Dict named;
  for (const auto& [name, value] : given.named) named.set(m.text(name), value);
  return percent_format(
      m, str_of(m, v),
      given.named.empty() ? m.list(given.values, ListKind::tuple) : m.dict(std::move(named)));
}

Value wordcount(Machine& m, const Value& v, A) {
  const std::string text = str_of(m, v);
  std::int64_t count = 0;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size(); i += std::max<std::size_t>(1, utf8_length(text, i))) {
    const char32_t c = utf8_code_point(text, i);
    const bool word = is_alpha(c) || is_decimal(c) || c == '_';
    count += word && !in_word;
    in_word = word;
  }
  return Value::Any(count);
}

Value in_capitals(Machine& m, const Value& v, A) { return m.text(upper(str_of(m, v))); }
Value in_small(Machine& m, const Value& v, A) { return m.text(lower(str_of(m, v))); }
Value begun_with_capital(Machine& m, const Value& v, A) { return m.text(capitalized(str_of(m, v))); }
Value as_text(Machine& m, const Value& v, A) { return v.text() ? v : m.text(str_of(m, v)); }

constexpr NamedFilter kTextFilters[] = {
    {"tojson", to_json},
    {"trim", kept<trim>},
    {"title", bare<title>},
    {"replace", replace},
    {"indent", kept<indent>},
    {"center", kept<center>},
    {"truncate", kept<truncate>},
    {"escape", bare<escape>},
    {"e", bare<escape>},
    {"forceescape", bare<escape_again>},
    {"urlencode", urlencode},
    {"format", format},
    {"wordcount", bare<wordcount>},
    {"upper", kept<bare<in_capitals>>},
    {"lower", kept<bare<in_small>>},
    {"capitalize", kept<bare<begun_with_capital>>},
    {"string", bare<as_text>},
    {"safe", bare<safe>},
};

}  // namespace

Filter text_filter(std::string_view name) {
  for (const NamedFilter& f : kTextFilters)
    if (f.name == name) return f.filter;
  return nullptr;
}

}  // namespace ft::jinja
