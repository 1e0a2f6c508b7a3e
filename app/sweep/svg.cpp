// sweep.svg: two panels, memory per rank and tokens/s, over one setting, with a line for each combination of
// the others. A run that did not fit is a hollow dot at the memory that it needs.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "app/plot/svg.h"
#include "app/screen/format.h"
#include "app/sweep/grid.h"
#include "app/sweep/table.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using svg::curve, svg::line, svg::text;

constexpr double kWidth = 860, kTop = 78, kBottom = 330, kPanel = 340;
constexpr double kLefts[] = {70, 490};

// Colours of the lines in light and dark mode; more lines reuse them.
struct Colour {
  const char *light, *dark;
};
constexpr Colour kColours[] = {{"#2463d6", "#74a9ff"}, {"#d4480b", "#ff9950"}, {"#1a8f52", "#5fd39a"},
                               {"#8a4bd1", "#c39bff"}, {"#b07d00", "#e8bc4a"}, {"#c02a72", "#ff86bd"},
                               {"#0b8aa0", "#63d0e4"}, {"#6b7280", "#a5adb8"}};

constexpr const char* kStyle =
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#57606a}"
    ".bg{fill:#fff}.t{font-size:16px;font-weight:600;fill:#1f2328}.v{font-weight:600}.g{stroke:#e7eaee}"
    ".f{stroke:#afb8c1}.s{fill:none;stroke-width:2;stroke-linejoin:round}.o{fill:none;stroke-width:1.6}";
constexpr const char* kDark =
    "text{fill:#9aa4af}.bg{fill:#0f1318}.t{fill:#e8ecf1}.g{stroke:#20262e}.f{stroke:#4a545f}";

// Returns the CSS classes d0 (a dot), c0 (a line or a hollow dot), d1, ...
std::string style() {
  std::string light = kStyle, dark = kDark;
  for (std::size_t i = 0; i < std::size(kColours); ++i) {
    light += str(".c", i, "{stroke:", kColours[i].light, "}.d", i, "{fill:", kColours[i].light, "}");
    dark += str(".c", i, "{stroke:", kColours[i].dark, "}.d", i, "{fill:", kColours[i].dark, "}");
  }
  return str("<style>", light, "@media (prefers-color-scheme:dark){", dark, "}</style>\n");
}

std::string dot(double x, double y, bool hollow, std::size_t series) {
  const std::size_t colour = series % std::size(kColours);
  return str("<circle class=\"", hollow ? "o c" : "d", colour, "\" cx=\"", svg::number(x), "\" cy=\"",
             svg::number(y), "\" r=\"4\"/>\n");
}

std::string tick(double v) {
  return v == std::floor(v) ? show::count(static_cast<std::int64_t>(v)) : show::digits(v, 2);
}

std::optional<double> as_number(const std::string& text) {
  double v = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, v);
  return error == std::errc() && stop == end ? std::optional(v) : std::nullopt;
}

struct Dot {
  double x, memory, speed;  // GiB; tokens/s, NaN: nothing ran
};

class Picture {
 public:
  Picture(const SweepTable& t, std::string title) : t_(t), title_(std::move(title)) { choose_axis(); }

  std::string draw() {
    if (!axis_) return "";
    gather();
    if (series_.empty()) return "";
    const double height = kBottom + 70 + 18 * static_cast<double>(series_.size());
    std::string out = str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ",
                          svg::number(height), "\" role=\"img\">\n<title>", svg::escaped(title_),
                          "</title>\n", style(), "<rect class=\"bg\" width=\"", kWidth, "\" height=\"",
                          svg::number(height), "\"/>\n", text(kLefts[0], 30, title_, "start", "t"));
    out += panel(kLefts[0], "memory per rank, GiB", &Dot::memory);
    out += panel(kLefts[1], "tokens/s", &Dot::speed);
    return out + legend() + "</svg>\n";
  }

 private:
  void choose_axis() {
    const auto numbers = [&](std::size_t column) {
      std::vector<double> found;
      for (const SweepRow& r : t_.rows) {
        if (r.values[column].empty()) continue;
        const auto v = as_number(r.values[column]);
        if (!v) return std::size_t{0};
        found.push_back(*v);
      }
      std::sort(found.begin(), found.end());
      return static_cast<std::size_t>(std::unique(found.begin(), found.end()) - found.begin());
    };
    for (std::size_t c = 0; c < t_.columns.size(); ++c)
      if (numbers(c) >= 2 && (!axis_ || t_.columns[c] == "data.max_seq_length")) axis_ = c;
  }

  void gather() {
    constexpr double kGiB = 1 << 30;
    for (const SweepRow& r : t_.rows) {
      if (r.values[*axis_].empty() || (r.memory <= 0 && !std::isfinite(r.tokens_per_second))) continue;
      std::string others;
      for (std::size_t c = 0; c < r.values.size(); ++c)
        if (c != *axis_)
          others += (others.empty() ? "" : ", ") + short_name(t_.columns[c]) + " " + r.values[c];
      auto at = std::find_if(series_.begin(), series_.end(), [&](auto& s) { return s.first == others; });
      if (at == series_.end()) at = series_.insert(at, {others, {}});
      at->second.push_back(
          {*as_number(r.values[*axis_]), static_cast<double>(r.memory) / kGiB, r.tokens_per_second});
    }
    for (const auto& [others, dots] : series_)
      for (const Dot& d : dots) values_.insert(d.x);
    for (auto& [others, dots] : series_)
      std::sort(dots.begin(), dots.end(), [](const Dot& a, const Dot& b) { return a.x < b.x; });
  }

  std::string panel(double left, const std::string& name, double Dot::*what) const {
    double low = INFINITY, high = -INFINITY, top = 0;
    for (const auto& [others, dots] : series_)
      for (const Dot& d : dots) {
        low = std::min(low, d.x), high = std::max(high, d.x);
        if (std::isfinite(d.*what)) top = std::max(top, d.*what);
      }
    const double margin = low < high ? 0.04 * (high - low) : 1;
    const svg::Scale x{low - margin, high + margin, left, left + kPanel},
        y{0, top > 0 ? 1.08 * top : 1, kBottom, kTop};
    std::string out = text(left, kTop - 14, name, "start", "v");
    for (const double v : svg::ticks(y.from, y.to, 6))
      out += line("g", left, y(v), left + kPanel, y(v)) + text(left - 8, y(v) + 4, tick(v), "end");
    double last = -INFINITY;  // place of the last mark of a value that was run
    for (const double v : values_) {
      if (x(v) - last < 44) continue;
      last = x(v);
      out += line("f", last, kBottom, last, kBottom + 5) + text(last, kBottom + 19, tick(v), "middle");
    }
    out += line("f", left, kBottom, left + kPanel, kBottom) +
           text(left + kPanel / 2, kBottom + 38, short_name(t_.columns[*axis_]), "middle");
    for (std::size_t i = 0; i < series_.size(); ++i) out += drawn(i, what, x, y);
    return out;
  }

  std::string drawn(std::size_t i, double Dot::*what, const svg::Scale& x, const svg::Scale& y) const {
    std::string dots;
    std::vector<svg::Point> ran;
    for (const Dot& d : series_[i].second) {
      if (!std::isfinite(d.*what) || d.*what <= 0) continue;
      const bool did_run = std::isfinite(d.speed);
      if (did_run) ran.push_back({x(d.x), y(d.*what)});
      dots += dot(x(d.x), y(d.*what), !did_run, i);
    }
    return (ran.size() > 1 ? curve(str("s c", i % std::size(kColours)).c_str(), ran) : "") + dots;
  }

  std::string legend() const {
    std::string out;
    double at = kBottom + 66;
    for (std::size_t i = 0; i < series_.size(); ++i, at += 18)
      out += dot(kLefts[0] + 5, at - 4, false, i) +
             text(kLefts[0] + 18, at, series_[i].first.empty() ? "all runs" : series_[i].first);
    return out;
  }

  const SweepTable& t_;
  std::string title_;
  std::optional<std::size_t> axis_;
  std::set<double> values_;  // values of the axis
  std::vector<std::pair<std::string, std::vector<Dot>>> series_;
};

}  // namespace

std::string SweepTable::svg(const std::string& title) const { return Picture(*this, title).draw(); }

}  // namespace ft
