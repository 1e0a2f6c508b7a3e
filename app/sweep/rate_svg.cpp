// learning_rate.svg: the held-out loss over the learning rate on a logarithmic axis, a line for each round.
#include <algorithm>
#include <cmath>
#include <map>

#include "app/plot/svg.h"
#include "app/screen/format.h"
#include "app/sweep/find_rate.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using svg::curve, svg::line, svg::text;

constexpr double kRateWidth = 760, kRateHeight = 420, kRateLeft = 70, kRateRight = 600, kRateTop = 60,
                 kRateBottom = 360;

constexpr const char* kRateStyle =
    "<style>text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#57606a}"
    ".bg{fill:#fff}.t{font-size:16px;font-weight:600;fill:#1f2328}.g{stroke:#e7eaee}.f{stroke:#afb8c1}"
    ".s{fill:none;stroke-width:2;stroke-linejoin:round}.c0{stroke:#9ab8f0}.c1{stroke:#5a8ae0}"
    ".c2{stroke:#1d4fb8}.d0{fill:#9ab8f0}.d1{fill:#5a8ae0}.d2{fill:#1d4fb8}.b{fill:none;stroke:#d4480b;"
    "stroke-width:2}@media (prefers-color-scheme:dark){text{fill:#9aa4af}.bg{fill:#0f1318}.t{fill:#e8ecf1}"
    ".g{stroke:#20262e}.f{stroke:#4a545f}.c0{stroke:#3b5b95}.c1{stroke:#5a8ae0}.c2{stroke:#a9c6ff}"
    ".d0{fill:#3b5b95}.d1{fill:#5a8ae0}.d2{fill:#a9c6ff}.b{stroke:#ff9950}}</style>\n";

struct Measured {
  double rate, loss;
};
using Rounds = std::map<std::int64_t, std::vector<Measured>>;  // by number of steps

Rounds rounds_of(const std::vector<SweepRow>& rows) {
  Rounds rounds;
  for (const SweepRow& row : rows)
    if (row.exit_code == 0 && std::isfinite(row.eval_loss))
      rounds[std::stoll(row.values[1])].push_back({std::stod(row.values[0]), row.eval_loss});
  for (auto& [steps, points] : rounds) std::ranges::sort(points, {}, &Measured::rate);
  return rounds;
}

// Removes losses that are far too high, because they would flatten the others of their round.
void leave_out_the_worst(Rounds& rounds) {
  constexpr double kFar = 1.5;
  for (auto& [steps, points] : rounds) {
    const double low = std::ranges::min_element(points, {}, &Measured::loss)->loss;
    std::erase_if(points, [&](const Measured& p) { return p.loss > kFar * std::fabs(low); });
  }
  std::erase_if(rounds, [](const auto& round) { return round.second.empty(); });
}

std::pair<double, double> range_of(const Rounds& rounds) {
  double low = INFINITY, high = -INFINITY;
  for (const auto& [steps, points] : rounds)
    for (const Measured& p : points) {
      low = std::min(low, p.loss);
      high = std::max(high, p.loss);
    }
  const double margin = std::max((high - low) * 0.08, 1e-6 + std::fabs(low) * 1e-3);
  return {low - margin, high + margin};
}

}  // namespace

std::string rate_svg(const std::vector<SweepRow>& rows, const std::string& title) {
  Rounds rounds = rounds_of(rows);
  leave_out_the_worst(rounds);
  double lowest = INFINITY, highest = 0;
  for (const SweepRow& row : rows) {
    lowest = std::min(lowest, std::stod(row.values[0]));
    highest = std::max(highest, std::stod(row.values[0]));
  }
  if (rounds.empty() || lowest >= highest) return "";
  const auto [low, high] = range_of(rounds);
  const svg::Scale x{lowest / 1.3, highest * 1.3, kRateLeft, kRateRight, true},
      y{low, high, kRateBottom, kRateTop};
  std::string out = str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kRateWidth, " ",
                        kRateHeight, "\" role=\"img\">\n<title>", svg::escaped(title), "</title>\n",
                        kRateStyle, "<rect class=\"bg\" width=\"", kRateWidth, "\" height=\"", kRateHeight,
                        "\"/>\n", text(kRateLeft, 30, title, "start", "t"));
  for (const double v : svg::ticks(low, high, 6))
    out += line("g", kRateLeft, y(v), kRateRight, y(v)) +
           text(kRateLeft - 8, y(v) + 4, show::digits(v, 3), "end");
  for (const double v : svg::log_ticks(x.from, x.to, 8))
    out += line("g", x(v), kRateTop, x(v), kRateBottom) +
           text(x(v), kRateBottom + 18, show::digits(v, 1), "middle");
  out += line("f", kRateLeft, kRateBottom, kRateRight, kRateBottom) +
         text((kRateLeft + kRateRight) / 2, kRateBottom + 42, "learning rate", "middle") +
         text(kRateLeft, kRateTop - 10, "held-out loss");
  std::size_t round = 0;
  const auto& last = rounds.rbegin()->second;
  const Measured best = *std::ranges::min_element(last, {}, &Measured::loss);
  for (const auto& [steps, points] : rounds) {
    const std::size_t colour = std::min<std::size_t>(round++, 2);
    std::vector<svg::Point> shown;
    for (const Measured& p : points) shown.push_back({x(p.rate), y(p.loss)});
    out += curve(str("s c", colour).c_str(), shown);
    for (const svg::Point& p : shown)
      out += str("<circle class=\"d", colour, "\" cx=\"", svg::number(p.x), "\" cy=\"", svg::number(p.y),
                 "\" r=\"4\"/>\n");
    out += text(kRateRight + 12, shown.back().y + 4, show::plural(steps, "step"));
  }
  out += str("<circle class=\"b\" cx=\"", svg::number(x(best.rate)), "\" cy=\"", svg::number(y(best.loss)),
             "\" r=\"8\"/>\n");
  return out + "</svg>\n";
}

}  // namespace ft
