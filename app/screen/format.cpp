#include "app/screen/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/core/error.h"

namespace ft::show {
namespace {

std::string printed(const char* format, int precision, double x) {
  std::array<char, 400> text;  // the longest double in %f has 309 digits before the point
  const int n = std::snprintf(text.data(), text.size(), format, precision, x);
  return std::string(text.data(), static_cast<std::size_t>(n));
}

// Inserts commas into the digits before the point.
std::string with_commas(std::string text) {
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  std::size_t end = text.find('.');
  if (end == std::string::npos) end = text.size();
  for (std::size_t at = end; at > first + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string not_finite(double x) { return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"; }

// Returns the power of ten: 4.2e3 has 3, also after rounding to `significant` digits (999.6 with 3 digits has
// 3).
int exponent(double x, int significant) {
  const std::string text = printed("%.*e", significant - 1, x);
  return std::atoi(text.c_str() + text.find('e') + 1);
}

}  // namespace

std::string count(std::int64_t n) { return with_commas(std::to_string(n)); }

std::string quantity(double n) {
  struct Unit {
    double size;
    const char* name;
  };
  for (const Unit u : {Unit{1e12, " T"}, Unit{1e9, " B"}, Unit{1e6, " M"}})
    if (std::abs(n) >= u.size * 0.9995) return digits(n / u.size) + u.name;
  return count(std::llround(n));
}

std::string plural(std::int64_t n, const std::string& noun) {
  return count(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string digits(double x, int significant) {
  if (!std::isfinite(x)) return not_finite(x);
  if (x == 0) return "0";
  const int e = exponent(x, significant);
  if (e < -4 || e > 8) return printed("%.*e", significant - 1, x);
  return with_commas(printed("%.*f", std::max(0, significant - 1 - e), x));
}

std::string number(double x) {
  return x == std::floor(x) && std::abs(x) < 1e9 ? count(static_cast<std::int64_t>(x)) : digits(x);
}

std::string fixed(double x, int decimals) {
  if (!std::isfinite(x)) return not_finite(x);
  std::string text = printed("%.*f", decimals, x);
  if (text.find_first_not_of("-0.") == std::string::npos && text.starts_with('-')) text.erase(0, 1);
  return with_commas(text);
}

std::string loss(double x) {
  if (!std::isfinite(x)) return not_finite(x);
  if (x == 0) return "0";
  const double size = std::abs(x);
  if (size < 0.001) return printed("%.*e", 1, x);
  if (size < 0.1) return digits(x);
  return fixed(x, size < 9.9995 ? 3 : 2);
}

std::string rate(double x) {
  return !std::isfinite(x) ? not_finite(x) : x == 0 ? "0" : printed("%.*e", 1, x);
}

std::string percent(double part, double whole) {
  if (!(whole > 0) || !std::isfinite(part)) return "-";
  const double p = 100 * part / whole;
  if (p == 0 || std::abs(p) >= 9.995) return fixed(p, std::abs(p - 100) < 1.5 && p != 100 ? 1 : 0) + " %";
  return digits(p, 2) + " %";
}

std::string file_size(std::int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b < 999.5) return count(bytes) + " B";
  if (b < 999.5e3) return digits(b / 1e3) + " kB";
  if (b < 999.5e6) return digits(b / 1e6) + " MB";
  if (b < 999.5e9) return digits(b / 1e9) + " GB";
  return digits(b / 1e12) + " TB";
}

std::string speed(double tokens_per_second) {
  if (tokens_per_second < 999.5) return digits(tokens_per_second) + " tok/s";
  if (tokens_per_second < 999.5e3) return digits(tokens_per_second / 1e3) + "k tok/s";
  return digits(tokens_per_second / 1e6) + "M tok/s";
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  seconds = std::max(0.0, seconds);
  if (seconds < 0.0995) return digits(seconds * 1e3, 2) + " ms";
  if (seconds < 9.95) return fixed(seconds, 1) + " s";
  if (seconds < 99.5) return fixed(seconds, 0) + " s";
  const auto two = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  const std::int64_t s = std::llround(std::min(seconds, 1e15));
  if (s < 3600) return std::to_string(s / 60) + "m" + two(s % 60) + "s";
  const std::int64_t m = std::llround(static_cast<double>(s) / 60);
  if (m < 24 * 60) return std::to_string(m / 60) + "h" + two(m % 60) + "m";
  const std::int64_t h = std::llround(static_cast<double>(s) / 3600);
  return count(h / 24) + "d" + two(h % 24) + "h";
}

std::string one_line(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string out;
  for (std::size_t begin = 0, end = 0; end != text.npos && out.size() < kMost; begin = end + 1) {
    end = text.find('\n', begin);
    out += (begin == 0 ? "" : "\\n") + printable(text.substr(begin, end == text.npos ? end : end - begin));
  }
  return fit(out, kMost);
}

std::string path(const std::filesystem::path& path) {
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  if (error || !path.is_absolute()) return path.string();
  const std::string relative = path.lexically_relative(here).string();
  return !relative.empty() && relative.size() < path.string().size() ? relative : path.string();
}

MemoryUnit memory_unit(std::int64_t total) {
  const auto bytes = static_cast<double>(total);
  constexpr double kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;
  MemoryUnit unit{kKiB, "KiB", 0};
  if (bytes >= kGiB)
    unit = {kGiB, "GiB", 0};
  else if (bytes >= 0.1 * kMiB)
    unit = {kMiB, "MiB", 0};
  const double shown = bytes / unit.bytes;
  unit.decimals = shown >= 9.995 ? 1 : 2;
  return unit;
}

std::string memory(std::int64_t bytes, const MemoryUnit& unit) {
  return fixed(static_cast<double>(bytes) / unit.bytes, unit.decimals);
}

std::string memory(std::int64_t bytes) {
  const MemoryUnit unit = memory_unit(bytes);
  return memory(bytes, unit) + " " + unit.name;
}

}  // namespace ft::show
