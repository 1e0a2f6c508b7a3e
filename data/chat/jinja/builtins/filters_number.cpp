// Filters of numbers.
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "data/chat/jinja/arguments.h"
#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/expression.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/text.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

using A = const Arguments&;

[[noreturn]] void fail_type(Machine& m, const char* filter, const Value& v) {
  m.fail(str(filter, ": ", type_of(v), " is not a number"));
}

Value absolute(Machine& m, const Value& v, A) {
  if (const auto i = v.integer()) {
    if (*i == INT64_MIN) m.fail("a number of more than 64 bits");
    return Value::Any(std::int64_t{*i < 0 ? -*i : *i});
  }
  if (const auto d = v.number()) return Value::Any(std::fabs(*d));
  fail_type(m, "abs", v);
}

// Rounds half to even at `digits` after the point, as Python does.
double rounded(double v, std::int64_t digits) {
  if (!std::isfinite(v) || digits > 300) return v;
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(v / unit) * unit;
  }
  char text[700];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), v);
  return std::strtod(text, nullptr);
}

Value round(Machine& m, const Value& v, A given) {
  const Bound a(m, "round", given, {"precision", "method"});
  const auto number = v.number();
  if (!number) fail_type(m, "round", v);
  const std::int64_t digits = a.integer(0, 0);
  const std::string method = a.text(1, "common");
  if (method == "common") {
    if (v.integer() && digits >= 0) return Value::Any(*v.integer());  // Python's round keeps integers
    return Value::Any(rounded(*number, digits));
  }
  if (method != "ceil" && method != "floor") m.fail("round: the method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits)), scaled = *number * unit;
  return Value::Any((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

std::optional<double> real_of(const std::string& text) {
  std::string t(stripped(text, "", true, true));
  std::erase(t, '_');
  if (t.empty() || t.find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double v = std::strtod(t.c_str(), &end);
  return end == t.c_str() + t.size() ? std::optional(v) : std::nullopt;
}

std::optional<std::int64_t> integer_of(const std::string& text, int base) {
  std::string t(stripped(text, "", true, true));
  std::erase(t, '_');
  const bool negative = t.starts_with('-');
  if (negative || t.starts_with('+')) t.erase(0, 1);
  const char letter = base == 16 ? 'x' : base == 8 ? 'o' : 'b';
  if (base != 10 && t.size() > 2 && t[0] == '0' && (t[1] | 0x20) == letter) t.erase(0, 2);
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), v, base);
  if (error != std::errc() || end != t.data() + t.size() || t.empty() || t[0] == '-') return std::nullopt;
  return negative ? -v : v;
}

Value to_int(Machine& m, const Value& v, A given) {
  const Bound a(m, "int", given, {"default", "base"});
  const Value otherwise = a.has(0) ? a[0] : Value(Value::Any(std::int64_t{0}));
  if (v.is_undefined()) m.fail(type_of(v) + ", is used as a number");
  if (const auto i = v.integer()) return Value::Any(*i);
  const std::int64_t base = a.integer(1, 10);
  if (base < 2 || base > 36) m.fail("int: the base must be 2 to 36");
  std::optional<double> real = v.number();
  if (const std::string* t = v.text()) {
    if (const auto i = integer_of(*t, static_cast<int>(base))) return Value::Any(*i);
    real = real_of(*t);
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  if (std::fabs(*real) >= 9.2e18) m.fail("a number of more than 64 bits");
  return Value::Any(static_cast<std::int64_t>(*real));
}

Value to_float(Machine& m, const Value& v, A given) {
  const Bound a(m, "float", given, {"default"});
  if (v.is_undefined()) m.fail(type_of(v) + ", is used as a number");
  if (const auto d = v.number()) return Value::Any(*d);
  const auto real = v.text() ? real_of(*v.text()) : std::nullopt;
  return real ? Value(Value::Any(*real)) : a.has(0) ? a[0] : Value(Value::Any(0.0));
}

Value filesizeformat(Machine& m, const Value& v, A given) {
  const Bound a(m, "filesizeformat", given, {"binary"});
  const bool binary = a.flag(0, false);
  if (!v.is_number() && !(v.text() && real_of(*v.text()))) fail_type(m, "filesizeformat", v);
  const Value number = to_float(m, v, {});
  const double bytes = *number.number(), base = binary ? 1024 : 1000;
  if (bytes == 1) return m.text("1 Byte");
  if (bytes < base) return m.text(str(static_cast<std::int64_t>(bytes), " Bytes"));
  static constexpr const char *kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"},
                              *kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  double unit = base * base;
  std::size_t i = 0;
  for (; i < 7 && bytes >= unit; ++i) unit *= base;
  char text[400];
  std::snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, binary ? kBinary[i] : kDecimal[i]);
  return m.text(text);
}

Value sum(Machine& m, const Value& v, A given) {
  const Bound a(m, "sum", given, {"attribute", "start"});
  Value total = a.has(1) ? a[1] : Value(Value::Any(std::int64_t{0}));
  const Value::ListRef all = m.items_of(v);
  for (const Value& item : all->items) {
    Value one = item;
    if (a.has(0) && !a[0].is_none())
      for (std::string path = a.text(0, ""); !path.empty();) {
        const std::size_t dot = path.find('.');
        one = item_of(m, one, m.text(path.substr(0, dot)));
        path = dot == std::string::npos ? "" : path.substr(dot + 1);
      }
    total = calculated(m, Operator::add, total, one);
  }
  return total;
}

constexpr NamedFilter kNumberFilters[] = {{"abs", bare<absolute>},
                                          {"round", round},
                                          {"int", to_int},
                                          {"float", to_float},
                                          {"filesizeformat", filesizeformat},
                                          {"sum", sum}};

}  // namespace

Filter number_filter(std::string_view name) {
  for (const NamedFilter& f : kNumberFilters)
    if (f.name == name) return f.filter;
  return nullptr;
}

}  // namespace ft::jinja
