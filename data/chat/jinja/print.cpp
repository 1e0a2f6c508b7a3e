#include "data/chat/jinja/print.h"

#include <array>
#include <charconv>
#include <cmath>

#include "data/chat/jinja/text.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft::jinja {

std::string type_of(const Value& value) {
  if (const auto* gone = value.as<Undefined>())
    return gone->name ? "'" + *gone->name + "', which is undefined" : "an undefined value";
  if (value.is_none()) return "none";
  if (value.as<bool>()) return "a truth value";
  if (value.as<std::int64_t>()) return "an integer";
  if (value.as<double>()) return "a number";
  if (value.text()) return "a text";
  if (value.dict()) return "an object";
  if (value.list()) return value.list()->kind == ListKind::list ? "a list" : "a tuple";
  return "a function or such";
}

std::string printed_float(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), v, std::chars_format::scientific);
  const std::string all(buffer.data(), end.ptr);  // -1.2345e-05, with the fewest digits
  const std::size_t e = all.find('e');
  const int exponent = std::stoi(all.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return all;
  std::string digits = all.substr(0, e);
  const std::string sign = digits[0] == '-' ? "-" : "";
  digits.erase(0, sign.size());
  std::erase(digits, '.');
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  const std::string fraction = digits.substr(whole);
  return sign + digits.substr(0, whole) + "." + (fraction.empty() ? "0" : fraction);
}

namespace {

void write_hex(Writer& out, const char* prefix, char32_t c, int digits) {
  std::string hex;
  for (int k = digits - 1; k >= 0; --k) hex += "0123456789abcdef"[c >> 4 * k & 0xF];
  out.add(prefix + hex);
}

void write_quoted(Machine& m, Writer& out, const std::string& text) {
  m.step_over(text);
  const bool single = text.find('\'') == std::string::npos || text.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  out.add(1, quote);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = std::max<std::size_t>(1, utf8_length(text, i));
    const char32_t c = utf8_code_point(text, i);
    if (c == '\n')
      out.add("\\n");
    else if (c == '\t')
      out.add("\\t");
    else if (c == '\r')
      out.add("\\r");
    else if (c == '\\' || c == static_cast<unsigned char>(quote))
      out.add("\\" + text.substr(i, 1));
    else if (is_printed(c))
      out.add(std::string_view(text).substr(i, n));
    else if (c < 0x100)
      write_hex(out, "\\x", c, 2);
    else if (c < 0x10000)
      write_hex(out, "\\u", c, 4);
    else
      write_hex(out, "\\U", c, 8);
    i += n;
  }
  out.add(1, quote);
}

void write_range(Writer& out, const std::vector<Value>& items) {
  const auto at = [&](std::size_t i) { return *items[i].integer(); };
  const std::int64_t step = items.size() > 1 ? at(1) - at(0) : 1;
  const std::int64_t begin = items.empty() ? 0 : at(0), end = items.empty() ? 0 : at(items.size() - 1) + step;
  out.add(str("range(", begin, ", ", end, step == 1 ? "" : str(", ", step), ")"));
}

// Returns the text before and after a list's items.
std::pair<const char*, const char*> brackets(ListKind kind) {
  switch (kind) {
    case ListKind::keys:
      return {"dict_keys([", "])"};
    case ListKind::values:
      return {"dict_values([", "])"};
    case ListKind::items:
      return {"dict_items([", "])"};
    case ListKind::tuple:
    case ListKind::group:
      return {"(", ")"};
    default:
      return {"[", "]"};
  }
}

void write_list(Machine& m, Writer& out, const List& list) {
  if (list.kind == ListKind::range) return write_range(out, list.items);
  const auto [open, close] = brackets(list.kind);
  out.add(open);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i) out.add(", ");
    write_repr(m, out, list.items[i]);
  }
  if (close[0] == ')' && list.items.size() == 1) out.add(",");
  out.add(close);
}

void write_dict(Machine& m, Writer& out, const Dict& dict) {
  out.add("{");
  const char* comma = "";
  for (const auto& [key, value] : dict.entries()) {
    out.add(comma);
    write_repr(m, out, key);
    out.add(": ");
    write_repr(m, out, value);
    comma = ", ";
  }
  out.add("}");
}

}  // namespace

void write_repr(Machine& m, Writer& out, const Value& value) {
  const Machine::Level level(m, m.line());
  if (const std::string* t = value.text()) {
    if (value.is_safe()) out.add("Markup(");
    write_quoted(m, out, *t);
    return out.add(value.is_safe() ? ")" : "");
  }
  if (value.is_undefined()) return out.add("Undefined");
  if (value.is_none()) return out.add("None");
  if (const auto* b = value.as<bool>()) return out.add(*b ? "True" : "False");
  if (const auto* i = value.as<std::int64_t>()) return out.add(std::to_string(*i));
  if (const auto* d = value.as<double>()) return out.add(printed_float(*d));
  if (const List* l = value.list()) return write_list(m, out, *l);
  if (const Dict* d = value.dict()) return write_dict(m, out, *d);
  out.add(value.object()->printed(m));
}

void write_str(Machine& m, Writer& out, const Value& value) {
  if (const std::string* t = value.text()) return out.add(*t);
  if (!value.is_undefined()) write_repr(m, out, value);
}

std::string str_of(Machine& m, const Value& value) {
  if (const std::string* t = value.text()) {
    m.step_over(*t);
    return *t;
  }
  Writer out(m);
  write_str(m, out, value);
  return out.text();
}

}  // namespace ft::jinja
