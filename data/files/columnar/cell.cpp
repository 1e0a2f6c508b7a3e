#include "data/files/columnar/cell.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/files/json_quote.h"
#include "data/files/row_reader.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"
#include "engine/files/json.h"

namespace ft::columnar {
namespace {

constexpr std::int64_t kDay = 86'400;  // seconds

std::int64_t power_of_ten(int n) {
  std::int64_t p = 1;
  for (; n > 0; --n) p *= 10;
  return p;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

template <class T>
void put_number(T value, std::string& to) {
  std::array<char, 32> digits;
  to.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

void put_padded(std::int64_t value, std::size_t width, std::string& to) {
  std::string digits;
  put_number(value, digits);
  to.append(width - std::min(width, digits.size()), '0') += digits;
}

void put_real(double value, std::string& to) {
  if (!std::isfinite(value)) {
    to += "null";
    return;
  }
  const std::size_t begin = to.size();
  put_number(value, to);
  if (to.find_first_of(".e", begin) == std::string::npos) to += ".0";
}

double half_value(Bytes bytes) {
  const auto bits = little<std::uint16_t>(bytes);
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double value = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                       : exponent == 0 ? std::ldexp(fraction, -24)
                                       : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

// Writes the Gregorian date, by Howard Hinnant's algorithm (howardhinnant.github.io/date_algorithms.html).
void put_date(std::int64_t days, std::string& to) {
  const std::int64_t shifted = days + 719'468, era = floor_div(shifted, 146'097);
  const std::int64_t day = shifted - era * 146'097;
  const std::int64_t year = (day - day / 1460 + day / 36'524 - day / 146'096) / 365;
  const std::int64_t in_year = day - (365 * year + year / 4 - year / 100);
  const std::int64_t month = (5 * in_year + 2) / 153;  // from March
  put_padded(year + era * 400 + (month > 9), 4, to);
  to += '-';
  put_padded(month > 9 ? month - 9 : month + 3, 2, to);
  to += '-';
  put_padded(in_year - (153 * month + 2) / 5 + 1, 2, to);
}

void put_time(std::int64_t ticks, int scale, std::string& to) {
  check(ticks >= 0, "a time below zero");
  const std::int64_t per_second = power_of_ten(scale), seconds = floor_div(ticks, per_second);
  const std::int64_t rest = ticks - seconds * per_second;
  for (const std::int64_t part : {seconds / 3600, seconds / 60 % 60, seconds % 60}) {
    put_padded(part, 2, to);
    to += ':';
  }
  to.pop_back();
  if (rest == 0) return;
  to += '.';
  if (scale < 6)
    put_padded(rest * power_of_ten(6 - scale), 6, to);
  else if (scale == 9 && rest % 1000 == 0)
    put_padded(rest / 1000, 6, to);
  else
    put_padded(rest, static_cast<std::size_t>(scale), to);
}

void put_timestamp(std::int64_t ticks, int scale, bool utc, std::string& to) {
  const std::int64_t day = kDay * power_of_ten(scale), in_day = ticks % day;
  put_date(floor_div(ticks, day), to);
  to += ' ';
  put_time(in_day < 0 ? in_day + day : in_day, scale, to);
  if (utc) to += "+00:00";
}

void put_int96(Bytes bytes, std::string& to) {
  constexpr std::int64_t kJulian1970 = 2'440'588;
  put_date(little<std::uint32_t>(bytes.substr(8)) - kJulian1970, to);
  to += ' ';
  const auto nanoseconds = little<std::int64_t>(bytes);
  check(nanoseconds >= 0 && nanoseconds <= kDay * power_of_ten(9), "a time that no day has");
  put_time(nanoseconds, 9, to);
}

// Returns the decimal digits of a big-endian number, which is divided by ten until it is 0.
std::string digits_of(Bytes bytes, bool& negative) {
  check(!bytes.empty() && bytes.size() <= 32, "a decimal of 0 or more than 32 bytes");
  std::string number(bytes), digits;
  negative = (number[0] & 0x80) != 0;
  int carry = 1;
  for (std::size_t i = number.size(); negative && i-- > 0;) {
    carry += static_cast<unsigned char>(~number[i]);
    number[i] = static_cast<char>(carry);
    carry >>= 8;
  }
  for (bool more = true; more;) {
    int rest = 0;
    more = false;
    for (char& c : number) {
      rest = rest * 256 + static_cast<unsigned char>(c);
      c = static_cast<char>(rest / 10);
      more |= c != 0;
      rest %= 10;
    }
    digits += static_cast<char>('0' + rest);
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

void put_decimal(const Value& value, int scale, std::string& to) {
  check(scale >= 0 && scale <= 77, "a decimal with no such digits");
  std::string big(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) big[i] = static_cast<char>(value.integer >> (56 - 8 * i));
  bool negative = false;
  std::string digits = digits_of(value.bytes.empty() ? Bytes(big) : value.bytes, negative);
  const auto behind = static_cast<std::size_t>(scale);
  if (digits.size() <= behind) digits.insert(0, behind + 1 - digits.size(), '0');
  if (negative) to += '-';
  to.append(digits, 0, digits.size() - behind);
  if (behind > 0) to.append(".").append(digits, digits.size() - behind);
}

void put_text(Bytes text, std::string& to) {
  check(static_cast<std::int64_t>(text.size()) <= kLongestRow, "a text that is longer than a row may be");
  check(is_utf8(text), "a text that is not UTF-8");
  quote_json(text, to);
}

Json without_null_keys(const Json& value) {
  if (!value.is_structured()) return value;
  Json kept = value.is_object() ? Json::object() : Json::array();
  for (const auto& [key, inner] : value.items())
    if (value.is_array())
      kept.push_back(without_null_keys(inner));
    else if (!inner.is_null())
      kept[key] = without_null_keys(inner);
  return kept;
}

// Appends the JSON text unchanged, unless keys have to be removed.
void put_json(Bytes text, std::string& to) try {
  Json value =
      parse_json(text, {"value"}, {.max_bytes = static_cast<std::size_t>(kLongestRow), .unique_keys = false});
  if (text.find("null") == Bytes::npos || !value.is_structured()) {
    to += text;
    return;
  }
  to += json_text(without_null_keys(value), -1);
} catch (const UserError& e) {
  throw Damage(str("a value that is not JSON: ", e.what()));
}

}  // namespace

void put(const Meaning& meaning, const Value& value, std::string& to) {
  using enum Meaning::Kind;
  const bool quoted =
      meaning.kind == date || meaning.kind == time || meaning.kind == timestamp || meaning.kind == int96;
  if (quoted) to += '"';
  switch (meaning.kind) {
    case boolean:
      to += value.integer != 0 ? "true" : "false";
      break;
    case integer:
      put_number(value.integer, to);
      break;
    case whole:
      put_number(static_cast<std::uint64_t>(value.integer), to);
      break;
    case real:
      put_real(value.real, to);
      break;
    case half:
      check(value.bytes.size() == 2, "a float of 16 bits in another size");
      put_real(half_value(value.bytes), to);
      break;
    case text:
      put_text(value.bytes, to);
      break;
    case json:
      put_json(value.bytes, to);
      break;
    case date:
      put_date(value.integer, to);
      break;
    case time:
      put_time(value.integer, meaning.scale, to);
      break;
    case timestamp:
      put_timestamp(value.integer, meaning.scale, meaning.utc, to);
      break;
    case int96:
      put_int96(value.bytes, to);
      break;
    case decimal:
      put_decimal(value, meaning.scale, to);
      break;
    case other:
      throw Damage(str("values of type ", printable(meaning.name, 40), " are not read"));
  }
  if (quoted) to += '"';
}

void put_member(const std::string& name, const std::function<void()>& put_value, std::string& to) {
  const std::size_t begin = to.size();
  if (to.back() != '{') to += ", ";
  quote_json(name, to);
  to += ": ";
  const std::size_t value = to.size();
  put_value();
  if (std::string_view(to).substr(value) == "null") to.resize(begin);
}

void check_row_size(const std::string& row) {
  if (static_cast<std::int64_t>(row.size()) > kLongestRow)
    throw Damage(str("a row of more than ", kLongestRow >> 20, " MiB"));
}

}  // namespace ft::columnar
