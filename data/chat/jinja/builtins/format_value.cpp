// Formats one value with a width, a sign, digits and a type, for % and format().
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/text.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

// Returns the digits without a sign.
std::string digits_of(std::uint64_t v, int base, bool capital) {
  const std::string_view signs = capital ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out += signs[v % static_cast<unsigned>(base)];
    v /= static_cast<unsigned>(base);
  } while (v > 0);
  std::reverse(out.begin(), out.end());
  return out;
}

std::string grouped(const std::string& digits, char by) {
  const std::size_t point = std::min(digits.find_first_of(".e"), digits.size());
  std::string out = digits.substr(point);
  for (std::size_t i = 0; i < point; ++i) {
    if (i && i % 3 == 0) out.insert(out.begin(), by);
    out.insert(out.begin(), digits[point - 1 - i]);
  }
  return out;
}

std::string real_digits(Machine& m, double v, const Form& form) {
  if (std::isinf(v)) return "inf";
  if (std::isnan(v)) return "nan";
  if (form.type == 0 && form.precision < 0) return printed_float(v);
  if (form.precision > 1000) m.fail("a format of more than 1000 digits");
  const bool percent = form.type == '%';
  const char type = percent ? 'f' : form.type == 0 || form.type == 'n' ? 'g' : form.type;
  const std::string pattern = str("%", form.alternate ? "#" : "", ".*", type);
  char text[1500];
  std::snprintf(text, sizeof text, pattern.c_str(), static_cast<int>(form.precision < 0 ? 6 : form.precision),
                percent ? v * 100 : v);
  std::string out = text;
  if (form.type == 0 && out.find_first_of(".e") == std::string::npos) out += ".0";
  return percent ? out + "%" : out;
}

struct Number {
  bool negative = false;
  std::string prefix, digits;
};
Number number_of(Machine& m, const Value& value, const Form& form) {
  static constexpr std::string_view kWhole = "dboxXcn";
  const auto i = value.integer();
  const bool whole = i && (form.type == 0 || kWhole.find(form.type) != std::string_view::npos);
  if (!whole) {
    if (form.type != 0 && std::string_view("eEfFgGn%").find(form.type) == std::string_view::npos)
      m.fail(str("a format of type ", form.type, " for ", type_of(value)));
    const double v = *value.number();
    return {std::signbit(v) && !std::isnan(v), "", real_digits(m, std::fabs(v), form)};
  }
  if (form.type == 'c')
    return {false, "", utf8_of(*i >= 0 && *i < 0xD800 ? static_cast<char32_t>(*i) : U'?')};
  const int base = form.type == 'b' ? 2 : form.type == 'o' ? 8 : (form.type | 0x20) == 'x' ? 16 : 10;
  const auto magnitude = *i < 0 ? ~static_cast<std::uint64_t>(*i) + 1 : static_cast<std::uint64_t>(*i);
  std::string digits = digits_of(magnitude, base, form.type == 'X');
  return {*i < 0, form.alternate && base != 10 ? str("0", form.type) : "", std::move(digits)};
}

}  // namespace

void write_formatted(Machine& m, Writer& out, const Value& value, Form form) {
  std::string sign, body;
  const bool number = value.is_number() && form.type != 's' && !(value.as<bool>() && form.type == 0);
  if (number) {
    Number n = number_of(m, value, form);
    sign = (n.negative ? "-" : form.sign == '+' ? "+" : form.sign == ' ' ? " " : "") + n.prefix;
    body = form.group ? grouped(n.digits, form.group) : n.digits;
  } else {
    if (form.type != 0 && form.type != 's')
      m.fail(str("a format of type ", form.type, " for ", type_of(value)));
    body = str_of(m, value);
    if (form.precision >= 0 && form.precision < length_of(body))
      body.resize(places_of(body)[static_cast<std::size_t>(form.precision)]);
  }
  const char align = form.align ? form.align : number ? '>' : '<';
  const std::int64_t room = std::max<std::int64_t>(form.width - length_of(sign) - length_of(body), 0);
  const std::int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  if (align == '=') out.add(sign);
  out.add(static_cast<std::size_t>(left), form.fill);
  if (align != '=') out.add(sign);
  out.add(body);
  out.add(static_cast<std::size_t>(room - left), form.fill);
}

}  // namespace ft::jinja
