// Draws loss.svg. Coordinates are pixels of an 860 x 520 page. Colours are CSS classes, so that the viewer's
// dark or light scheme chooses them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "app/plot/loss_plot.h"
#include "app/plot/svg.h"
#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr double kWidth = 860, kHeight = 520;
constexpr double kLeft = 70, kRight = 796;           // both panels
constexpr double kTop = 78, kBottom = 392;           // panel of the losses
constexpr double kRateTop = 422, kRateBottom = 466;  // panel of the learning rate
constexpr std::size_t kRawColumns = 160, kAverageColumns = 160, kRateColumns = 60;  // more are not visible
constexpr double kLogFrom = 30;  // losses that fall by a larger factor get a logarithmic axis

constexpr const char* kStyle = R"(<style>
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#57606a}
.bg{fill:#fff}.t{font-size:16px;font-weight:600;fill:#1f2328}.v{font-weight:600}
.g{stroke:#e7eaee}.e{stroke:#c4cad1;stroke-dasharray:2 4}.f{stroke:#afb8c1}
.raw,.avg,.h,.lr{fill:none;stroke:#2463d6;stroke-linejoin:round;stroke-linecap:round}
.raw{opacity:.32}.avg{stroke-width:2.4}.va{fill:#2463d6}
.h{stroke:#d4480b;opacity:.45;stroke-dasharray:4 4}
.d{fill:#d4480b;stroke:#fff;stroke-width:1.5}.vh{fill:#d4480b}
.r{fill:none;stroke:#d4480b;stroke-width:1.5}
.lr{stroke:#768390;stroke-width:1.4}.la{fill:#768390;opacity:.16}
@media (prefers-color-scheme:dark){text{fill:#9aa4af}.bg{fill:#0f1318}.t{fill:#e8ecf1}
.g{stroke:#20262e}.e{stroke:#3a434d}
.f{stroke:#4a545f}.raw,.avg{stroke:#74a9ff}.raw{opacity:.5}.va{fill:#74a9ff}.h,.r{stroke:#ff9950}
.d{fill:#ff9950;stroke:#0f1318}.vh{fill:#ff9950}.lr{stroke:#8b97a3}.la{fill:#8b97a3}}
</style>
)";

using svg::curve, svg::line, svg::text;

// Reduces a curve to at most `columns` columns of the picture. Keeps the lowest and highest value of each
// column in their order, or only the last value.
enum class Keep : std::uint8_t { extremes, last };
std::vector<svg::Point> thinned(const std::vector<LossPoint>& points, const std::vector<double>& values,
                                std::size_t columns, Keep keep) {
  std::vector<svg::Point> out;
  const auto add = [&](std::size_t i) {
    if (const auto x = static_cast<double>(points[i].step); out.empty() || x > out.back().x)
      out.push_back({x, values[i]});
  };
  const std::size_t n = points.size(), width = (n + columns - 1) / columns;
  add(0);
  for (std::size_t begin = 0; begin < n; begin += width) {
    const std::size_t end = std::min(n, begin + width);
    const auto [low, high] = std::minmax_element(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 values.begin() + static_cast<std::ptrdiff_t>(end));
    if (keep == Keep::extremes) {
      add(static_cast<std::size_t>(std::min(low, high) - values.begin()));
      add(static_cast<std::size_t>(std::max(low, high) - values.begin()));
    }
    if (keep == Keep::last || end == n) add(end - 1);
  }
  return out;
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void include(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
};

class Picture {
 public:
  explicit Picture(const LossCurve& c) : c_(c) {
    std::vector<LossPoint> points;
    for (const LossPoint& p : c.points)
      if (std::isfinite(p.loss) && std::isfinite(p.learning_rate)) points.push_back(p);
    c_.points = std::move(points);
    std::erase_if(c_.evaluations, [](const EvalRow& row) { return !std::isfinite(row.eval_loss); });
    if (c_.points.empty()) return;
    average_ = moving_average(c_.points, std::clamp(static_cast<double>(c_.points.size()) / 12, 5.0, 500.0));
    make_scales();
  }

  std::string draw() const {
    if (c_.points.empty()) return "";
    const bool rewards = !c_.rewards.all().empty();
    const double height = kHeight + (rewards ? kRewardHeight : 0);
    return str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", height,
               "\" role=\"img\">\n<title>", svg::escaped(c_.title), "</title>\n", kStyle,
               rewards ? kRewardStyle : "", "<rect class=\"bg\" width=\"", kWidth, "\" height=\"", height,
               "\"/>\n", text(kLeft, 30, c_.title, "start", "t"), text(kLeft, 50, c_.subtitle), axes(),
               losses(), held_out(), rate(), legend(),
               rewards ? reward_panel(c_.rewards.all(), x_, kHeight) : "", "</svg>\n");
  }

 private:
  // Chooses the scales. Raw outliers, such as the first steps of a new model, may leave the panel; the
  // average and the held-out losses always fit.
  void make_scales() {
    Range shown, raw;
    for (const double v : average_) shown.include(v);
    for (const EvalRow& row : c_.evaluations) shown.include(row.eval_loss);
    for (const LossPoint& p : c_.points) raw.include(p.loss);
    const double spread = std::max({shown.high - shown.low, 0.05 * std::abs(shown.high), 1e-3});
    double low = std::max(raw.low, shown.low - 0.5 * spread),
           high = std::min(raw.high, shown.high + 0.35 * spread);
    low = std::min(low, shown.low);
    high = std::max(high, shown.high);
    y_.logarithmic = shown.low > 0 && shown.high / shown.low > kLogFrom;
    if (y_.logarithmic) {
      low = std::max(raw.low > 0 ? raw.low : shown.low, shown.low / 2);
      y_.from = low / 1.1;
      y_.to = high * 1.1;
    } else {
      const double margin = std::max(0.05 * (high - low), (spread - (high - low)) / 2);
      y_.from = low >= 0 ? std::max(0.0, low - margin) : low - margin;
      y_.to = high + margin;
    }
    y_.at_from = kBottom;
    y_.at_to = kTop;
    const double first = static_cast<double>(c_.points.front().step);
    double last = static_cast<double>(c_.points.back().step);
    if (!c_.evaluations.empty()) last = std::max(last, static_cast<double>(c_.evaluations.back().step));
    x_ = {std::min(first, 0.0), std::max(last, first + 1), kLeft, kRight};
  }

  std::string axes() const {
    std::string out;
    const auto y_ticks = y_.logarithmic ? svg::log_ticks(y_.from, y_.to, 7) : svg::ticks(y_.from, y_.to, 7);
    const double step = y_ticks.size() > 1 ? y_ticks[1] - y_ticks[0] : y_.to - y_.from;
    const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
    for (const double v : y_ticks) {
      out += line("g", kLeft, y_(v), kRight, y_(v));
      out +=
          text(kLeft - 8, y_(v) + 4, y_.logarithmic ? show::digits(v, 1) : show::fixed(v, decimals), "end");
    }
    for (const double v : svg::ticks(x_.from, x_.to, 9)) {
      if (v != std::floor(v)) continue;
      out += line("f", x_(v), kRateBottom, x_(v), kRateBottom + 5);
      out += text(x_(v), kRateBottom + 19, show::count(static_cast<std::int64_t>(v)), "middle");
    }
    out += line("f", kLeft, kBottom, kRight, kBottom) + line("f", kLeft, kRateBottom, kRight, kRateBottom);
    out += passes();
    out += text((kLeft + kRight) / 2, kRateBottom + 40, "optimizer step", "middle");
    const double middle = (kTop + kBottom) / 2;
    out +=
        str("<text transform=\"translate(15 ", svg::number(middle),
            ") rotate(-90)\" text-anchor=\"middle\">loss", c_.rewards.all().empty() ? ", nats per token" : "",
            y_.logarithmic ? " (log scale)" : "", "</text>\n");
    return out;
  }

  // Marks the ends of epochs if there are not too many.
  std::string passes() const {
    std::string out;
    const auto per = static_cast<double>(c_.steps_per_epoch);
    if (per <= 0 || x_.to / per > 12) return out;
    for (double pass = 1; pass * per <= x_.to; ++pass) {
      const double x = x_(pass * per);
      out += line("e", x, kTop, x, kBottom);
      if (x > kRight - 60) continue;  // values are written there
      out += text(x - 4, kTop + 11, "pass " + show::count(static_cast<std::int64_t>(pass)), "end");
    }
    return out;
  }

  std::vector<svg::Point> placed(std::vector<svg::Point> points) const {
    for (svg::Point& p : points)
      p = {x_(p.x), std::clamp(y_(y_.logarithmic ? std::max(p.y, y_.from) : p.y), kTop, kBottom)};
    return points;
  }

  std::string losses() const {
    std::vector<double> raw;
    for (const LossPoint& p : c_.points) raw.push_back(p.loss);
    return curve("raw", placed(thinned(c_.points, raw, kRawColumns, Keep::extremes))) +
           curve("avg", placed(thinned(c_.points, average_, kAverageColumns, Keep::last)));
  }

  std::string held_out() const {
    std::vector<svg::Point> points;
    for (const EvalRow& row : c_.evaluations)
      points.push_back({x_(static_cast<double>(row.step)), y_(row.eval_loss)});
    if (points.empty()) return ends();
    std::string out = points.size() > 1 ? curve("h", points) : "";
    const std::size_t every = (points.size() + 59) / 60;  // more dots would merge into a line
    for (std::size_t i = (points.size() - 1) % every; i < points.size(); i += every)
      out += str("<circle class=\"d\" cx=\"", svg::number(points[i].x), "\" cy=\"", svg::number(points[i].y),
                 "\" r=\"4.5\"/>\n");
    const auto best =
        std::min_element(c_.evaluations.begin(), c_.evaluations.end(),
                         [](const EvalRow& a, const EvalRow& b) { return a.eval_loss < b.eval_loss; });
    const svg::Point at = points[static_cast<std::size_t>(best - c_.evaluations.begin())];
    out +=
        str("<circle class=\"r\" cx=\"", svg::number(at.x), "\" cy=\"", svg::number(at.y), "\" r=\"8\"/>\n");
    return out + ends();
  }

  // Writes the last values beside the curves' ends, at a distance if they would overlap.
  std::string ends() const {
    const double end = c_.last && std::isfinite(*c_.last) ? *c_.last : c_.points.back().loss;
    double a = std::clamp(y_(average_.back()), kTop, kBottom);
    if (c_.evaluations.empty()) return text(kRight + 10, a + 4, show::loss(end), "start", "v va");
    const double last = c_.evaluations.back().eval_loss;
    double h = y_(last);
    constexpr double kApart = 16;
    if (std::abs(a - h) < kApart) {
      const double middle = (a + h) / 2, away = a <= h ? -kApart / 2 : kApart / 2;
      a = middle + away;
      h = middle - away;
    }
    return text(kRight + 12, a + 4, show::loss(end), "start", "v va") +
           text(kRight + 12, h + 4, show::loss(last), "start", "v vh");
  }

  std::string rate() const {
    std::vector<double> rates;
    for (const LossPoint& p : c_.points) rates.push_back(p.learning_rate);
    const double top = *std::max_element(rates.begin(), rates.end());
    const svg::Scale y{0, top > 0 ? top : 1, kRateBottom, kRateTop};
    std::vector<svg::Point> points = thinned(c_.points, rates, kRateColumns, Keep::extremes);
    for (svg::Point& p : points) p = {x_(p.x), y(p.y)};
    std::vector<svg::Point> area = points;
    area.push_back({points.back().x, kRateBottom});
    area.push_back({points.front().x, kRateBottom});
    return curve("la", area) + curve("lr", points) + text(kLeft - 8, kRateTop + 5, show::rate(top), "end") +
           text(kLeft - 8, kRateBottom + 3, "0", "end") + text(kLeft, kRateTop - 6, "learning rate");
  }

  std::string legend() const {
    double x = kRight;
    std::string out;
    const auto entry = [&](const char* words, double width, const std::string& sign) {
      x -= width;
      out += str("<g transform=\"translate(", svg::number(x), " 64)\">", sign, "</g>\n",
                 text(x + 24, 68, words));
    };
    if (!c_.evaluations.empty())
      entry("held out, best ringed", 150, "<circle class=\"d\" cx=\"10\" r=\"4.5\"/>");
    entry("moving average", 128, "<path class=\"avg\" d=\"M0 0h18\"/>");
    entry("training loss", 112, "<path class=\"raw\" d=\"M0 0l4-4 5 7 5-6 4 3\"/>");
    return out;
  }

  LossCurve c_;
  std::vector<double> average_;
  svg::Scale x_{}, y_{};
};

}  // namespace

std::vector<double> moving_average(const std::vector<LossPoint>& points, double window) {
  const std::size_t n = points.size(),
                    half = static_cast<std::size_t>(std::max(1.0, std::min(window, 1e9))) / 2;
  std::vector<double> sums{0}, out;
  for (const LossPoint& p : points) sums.push_back(sums.back() + p.loss);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t reach = std::min({half, i, n - 1 - i});
    const double sum = sums[i + reach + 1] - sums[i - reach];
    out.push_back(reach == 0 ? points[i].loss : sum / static_cast<double>(2 * reach + 1));
  }
  return out;
}

std::string loss_svg(const LossCurve& curve) { return Picture(curve).draw(); }

}  // namespace ft
