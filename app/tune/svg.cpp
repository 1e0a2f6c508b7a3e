// Draws tune.svg: speed over memory of the settings, and the course of the search.
#include <algorithm>
#include <cmath>
#include <utility>

#include "app/plot/svg.h"
#include "app/screen/format.h"
#include "app/tune/results.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using svg::line, svg::text;

constexpr double kWidth = 860, kTop = 92, kBottom = 350, kPanel = 340, kLegend = 408;
constexpr double kLefts[] = {70, 490};

constexpr const char* kStyle =
    "<style>text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#57606a}"
    ".bg{fill:#fff}.t{font-size:16px;font-weight:600;fill:#1f2328}.v{font-weight:600}.g{stroke:#e7eaee}"
    ".f{stroke:#afb8c1}.p{fill:#c3ccd6}.m{fill:#2463d6}.e{fill:none;stroke:#2463d6;stroke-width:1.6}"
    ".b{fill:none;stroke:#d4480b;stroke-width:2}.s{fill:#1a8f52}"
    ".c{fill:none;stroke:#d4480b;stroke-width:1.6;stroke-linejoin:round}"
    "@media (prefers-color-scheme:dark){text{fill:#9aa4af}.bg{fill:#0f1318}.t{fill:#e8ecf1}.g{stroke:#20262e}"
    ".f{stroke:#4a545f}.p{fill:#3d4854}.m{fill:#74a9ff}.e{stroke:#74a9ff}.b,.c{stroke:#ff9950}"
    ".s{fill:#5fd39a}}</style>\n";

std::string dot(const char* kind, double x, double y, double radius) {
  return str("<circle class=\"", kind, "\" cx=\"", svg::number(x), "\" cy=\"", svg::number(y), "\" r=\"",
             svg::number(radius), "\"/>\n");
}

std::string tick(double v) {
  return v == std::floor(v) ? show::count(static_cast<std::int64_t>(v)) : show::digits(v, 2);
}

class Picture {
 public:
  Picture(const TuneResults& r, std::string title) : r_(r), title_(std::move(title)) {
    for (const TuneRow& row : r_.rows)
      for (const double speed : {row.tokens_per_second, row.predicted})
        if (std::isfinite(speed)) fastest_ = std::max(fastest_, speed);
  }

  std::string draw() const {
    if (r_.trials.empty() || fastest_ <= 0) return "";
    return str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth,
               " 424\" role=\"img\">\n<title>", svg::escaped(title_), "</title>\n", kStyle,
               "<rect class=\"bg\" width=\"", kWidth, "\" height=\"424\"/>\n",
               text(kLefts[0], 30, title_, "start", "t"),
               text(kLefts[0], 52, "best: " + r_.settings(r_.rows[r_.best])), by_memory(), by_trial(),
               legend(), "</svg>\n");
  }

 private:
  svg::Scale speeds() const { return {0, 1.08 * fastest_, kBottom, kTop}; }

  std::string frame(double left, const std::string& above, const std::string& below) const {
    const svg::Scale y = speeds();
    std::string out = text(left, kTop - 14, above, "start", "v");
    for (const double v : svg::ticks(y.from, y.to, 6))
      out += line("g", left, y(v), left + kPanel, y(v)) + text(left - 8, y(v) + 4, tick(v), "end");
    return out + line("f", left, kBottom, left + kPanel, kBottom) +
           text(left + kPanel / 2, kBottom + 38, below, "middle");
  }

  std::string mark(const svg::Scale& x, double v) const {
    return line("f", x(v), kBottom, x(v), kBottom + 5) + text(x(v), kBottom + 19, tick(v), "middle");
  }

  std::string by_memory() const {
    const show::MemoryUnit unit = r_.memory_unit();
    const auto memory = [&](const TuneRow& row) { return static_cast<double>(row.memory) / unit.bytes; };
    double high = 0;
    for (const TuneRow& row : r_.rows) high = std::max(high, memory(row));
    const svg::Scale x{0, 1.05 * high, kLefts[0], kLefts[0] + kPanel}, y = speeds();
    std::string out = frame(kLefts[0], "tokens/s by memory", str(unit.name, " of a rank"));
    for (const double v : svg::ticks(x.from, x.to, 6)) out += mark(x, v);
    const auto each = [&](const char* kind, double radius, double TuneRow::*speed, auto&& which) {
      for (const TuneRow& row : r_.rows)
        if (which(row) && std::isfinite(row.*speed)) out += dot(kind, x(memory(row)), y(row.*speed), radius);
    };
    each("p", 2.5, &TuneRow::predicted, [](const TuneRow& row) { return row.result.empty(); });
    each("m", 4, &TuneRow::tokens_per_second, [](const TuneRow& row) { return !row.result.empty(); });
    each("s", 4, &TuneRow::tokens_per_second, [&](const TuneRow& row) { return is_start(row); });
    each("b", 7, &TuneRow::tokens_per_second, [&](const TuneRow& row) { return &row == &r_.rows[r_.best]; });
    return out;
  }

  std::string by_trial() const {
    const auto n = static_cast<double>(r_.trials.size());
    const svg::Scale x{0.5, n + 0.5, kLefts[1], kLefts[1] + kPanel}, y = speeds();
    std::string out = frame(kLefts[1], "tokens/s by trial", "trial");
    for (const double v : svg::ticks(1, std::max(2.0, n), 8))
      if (v <= n && v == std::floor(v)) out += mark(x, v);
    std::vector<svg::Point> best;
    double so_far = 0;
    for (std::size_t i = 0; i < r_.trials.size(); ++i) {
      const TuneRow& row = r_.rows[r_.trials[i]];
      const double at = x(static_cast<double>(i + 1));
      if (std::isfinite(row.tokens_per_second)) {
        so_far = std::max(so_far, row.tokens_per_second);
        out += dot(is_start(row) ? "s" : "m", at, y(row.tokens_per_second), 4);
      }
      if (std::isfinite(row.predicted)) out += dot("e", at, y(row.predicted), 4);
      if (so_far <= 0) continue;
      if (!best.empty()) best.push_back({at, best.back().y});
      best.push_back({at, y(so_far)});
    }
    return best.size() > 1 ? svg::curve("c", best) + out : out;
  }

  std::string legend() const {
    std::string out;
    double at = kLefts[0] + 5;
    const auto entry = [&](const char* kind, double radius, const char* words, double width) {
      out += dot(kind, at, kLegend - 4, radius) + text(at + 12, kLegend, words);
      at += width;
    };
    entry("m", 4, "measured", 96);
    if (r_.start >= 0) entry("s", 4, "the configuration as it is", 190);
    entry("b", 7, "best", 66);
    entry("p", 2.5, "predicted, not tried", 162);
    entry("e", 4, "predicted before its trial", 0);
    return out;
  }

  bool is_start(const TuneRow& row) const {
    return r_.start >= 0 && &row == &r_.rows[static_cast<std::size_t>(r_.start)];
  }

  const TuneResults& r_;
  std::string title_;
  double fastest_ = 0;
};

}  // namespace

std::string TuneResults::svg(const std::string& title) const { return Picture(*this, title).draw(); }

}  // namespace ft
