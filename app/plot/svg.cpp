#include "app/plot/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "engine/core/error.h"

namespace ft::svg {
namespace {

std::string tenths(std::int64_t n) {  // n / 10 as text: 125 is 12.5, 5 is .5
  const std::string sign = n < 0 ? "-" : "";
  const std::int64_t a = std::abs(n);
  if (a % 10 == 0) return sign + std::to_string(a / 10);
  return sign + (a >= 10 ? std::to_string(a / 10) : "") + "." + std::to_string(a % 10);
}

}  // namespace

std::vector<double> ticks(double low, double high, int most) {
  if (!(low < high) || most < 1) return {low};
  const double rough = (high - low) / most;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0}) {
    const double step = factor * power;
    const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
    if (last - first + 1 > most || last < first) continue;
    std::vector<double> out;
    for (double i = first; i <= last; ++i) out.push_back(i * step);
    return out;
  }
  return {low};
}

std::vector<double> log_ticks(double low, double high, int most) {
  std::vector<double> out;
  for (const std::vector<double>& factors : {std::vector<double>{1, 2, 5}, {1, 3}, {1}}) {
    out.clear();
    for (int e = static_cast<int>(std::floor(std::log10(low)));
         e <= static_cast<int>(std::ceil(std::log10(high))); ++e)
      for (const double f : factors)
        if (const double v = e < 0 ? f / std::pow(10.0, -e) : f * std::pow(10.0, e);
            v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9))
          out.push_back(v);
    if (static_cast<int>(out.size()) <= most) return out.empty() ? std::vector<double>{low} : out;
  }
  std::vector<double> thin;
  const std::size_t every =
      (out.size() + static_cast<std::size_t>(most) - 1) / static_cast<std::size_t>(most);
  for (std::size_t i = 0; i < out.size(); i += every) thin.push_back(out[i]);
  return thin;
}

double Scale::operator()(double value) const {
  const double part =
      logarithmic ? std::log(value / from) / std::log(to / from) : (value - from) / (to - from);
  return at_from + part * (at_to - at_from);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out;
}

std::string number(double x) { return tenths(std::llround(x * 10)); }

std::string path(const std::vector<Point>& points) {
  std::string out;
  std::int64_t x = 0, y = 0;
  for (const Point& p : points) {
    const std::int64_t px = std::llround(p.x * 10), py = std::llround(p.y * 10);
    if (!out.empty() && px == x && py == y) continue;
    const std::string dy = tenths(out.empty() ? py : py - y);
    std::string dx = tenths(out.empty() ? px : px - x);
    if (out.empty())
      out = "M";
    else if (out.find('l') == std::string::npos)
      out += "l";
    else if (dx[0] != '-')
      out += " ";
    out += dx + (dy[0] == '-' ? "" : " ") + dy;
    x = px;
    y = py;
  }
  return points.size() == 1 ? out + "h0" : out;  // the round line cap makes it a dot
}

std::string line(const char* kind, double x1, double y1, double x2, double y2) {
  return str("<path class=\"", kind, "\" d=\"M", number(x1), " ", number(y1), "L", number(x2), " ",
             number(y2), "\"/>\n");
}

std::string text(double x, double y, const std::string& words, const char* anchor, const char* kind) {
  return str("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\"",
             *kind ? str(" class=\"", kind, "\"") : "", ">", escaped(words), "</text>\n");
}

std::string curve(const char* kind, const std::vector<Point>& points) {
  return str("<path class=\"", kind, "\" d=\"", path(points), "\"/>\n");
}

}  // namespace ft::svg
