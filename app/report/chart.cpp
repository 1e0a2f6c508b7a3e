#include "app/report/chart.h"

#include <algorithm>
#include <cmath>

#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr double kChartWidth = 640, kChartHeight = 250, kFrameLeft = 64, kFrameRight = 612, kFrameTop = 30,
                 kFrameBottom = 216;
constexpr std::size_t kMostPoints = 1200;  // points of a line: two for each pixel column

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
};

// Returns the finite points, thinned to the lowest and the highest of each stretch.
std::vector<svg::Point> thinned(const std::vector<svg::Point>& all) {
  std::vector<svg::Point> finite;
  for (const svg::Point& p : all)
    if (std::isfinite(p.y)) finite.push_back(p);
  if (finite.size() <= kMostPoints) return finite;
  std::vector<svg::Point> out;
  const std::size_t stretch = (2 * finite.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < finite.size(); i += stretch) {
    const auto begin = finite.begin() + static_cast<std::ptrdiff_t>(i),
               end = finite.begin() + static_cast<std::ptrdiff_t>(std::min(i + stretch, finite.size()));
    auto [low, high] = std::minmax_element(begin, end, [](auto& a, auto& b) { return a.y < b.y; });
    if (low > high) std::swap(low, high);
    out.push_back(*low);
    if (high != low) out.push_back(*high);
  }
  return out;
}

}  // namespace

std::string chart_svg(const std::string& title, const std::vector<ChartSeries>& series, bool from_zero) {
  Range x, y;
  for (const ChartSeries& s : series)
    for (const auto* points : {&s.line, &s.pale, &s.dots})
      for (const svg::Point& p : *points)
        if (std::isfinite(p.y)) x.add(p.x), y.add(p.y);
  if (!(x.low <= x.high)) return "";
  if (from_zero) y.low = std::min(y.low, 0.0);
  if (x.low == x.high) x.low -= 1, x.high += 1;
  const double margin = y.high > y.low ? (y.high - y.low) * 0.05 : std::max(std::fabs(y.high) * 0.05, 1e-9);
  if (!from_zero) y.low -= margin;
  y.high += margin;
  const svg::Scale at_x{x.low, x.high, kFrameLeft, kFrameRight}, at_y{y.low, y.high, kFrameBottom, kFrameTop};
  std::string out = str("<svg viewBox=\"0 0 ", kChartWidth, " ", kChartHeight, "\" role=\"img\"><title>",
                        svg::escaped(title), "</title>", svg::text(kFrameLeft, 18, title, "start", "t"));
  for (const double v : svg::ticks(y.low, y.high, 5))
    out += svg::line("g", kFrameLeft, at_y(v), kFrameRight, at_y(v)) +
           svg::text(kFrameLeft - 6, at_y(v) + 4, show::digits(v, 3), "end");
  for (const double v : svg::ticks(x.low, x.high, 6))
    if (v == std::round(v))  // only integers, because x counts steps
      out += svg::text(at_x(v), kFrameBottom + 18, show::count(std::llround(v)), "middle");
  const auto placed = [&](const std::vector<svg::Point>& points) {
    std::vector<svg::Point> out_points;
    for (const svg::Point& p : thinned(points)) out_points.push_back({at_x(p.x), at_y(p.y)});
    return out_points;
  };
  for (const ChartSeries& s : series) {
    const std::string colour = str("c", s.colour % 8);
    if (const auto pale = placed(s.pale); !pale.empty()) out += svg::curve(("p " + colour).c_str(), pale);
    if (const auto line = placed(s.line); !line.empty()) out += svg::curve(("s " + colour).c_str(), line);
    for (const svg::Point& p : placed(s.dots))
      out += str("<circle class=\"d", s.colour % 8, "\" cx=\"", svg::number(p.x), "\" cy=\"",
                 svg::number(p.y), "\" r=\"4\"/>");
  }
  return out + "</svg>\n";
}

}  // namespace ft
