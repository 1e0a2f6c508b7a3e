// Draws a profile as SVG. Coordinates are pixels; colours are CSS classes, so that the viewer's dark or light
// scheme chooses them.
#include <algorithm>

#include "app/plot/svg.h"
#include "app/profile/step_profile.h"
#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr double kWidth = 1200, kLeft = 20, kTop = 84, kRow = 26, kLetter = 6.6;
constexpr double kThinnest = 0.8;  // thinner bars are not drawn

constexpr const char* kStyle = R"(<style>
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1f2328}
.bg{fill:#fff}.t{font-size:16px;font-weight:600}.s{fill:#57606a}
rect{stroke:#fff;stroke-width:1}.p{fill:#d0d7de}
.c0{fill:#e9edf2}.c1{fill:#cfe1fb}.c2{fill:#a6c8f7}.c3{fill:#7fb0f2}
.c4{fill:#5c99ec}
@media (prefers-color-scheme:dark){text{fill:#e8ecf1}.bg{fill:#0f1318}.s{fill:#9aa4af}rect{stroke:#0f1318}
.p{fill:#3a434d}.c0{fill:#20262e}.c1{fill:#1d3557}.c2{fill:#234a80}.c3{fill:#2a5ea8}.c4{fill:#2f73d0}}
</style>
)";

std::string in_ms(double seconds) { return show::digits(seconds * 1e3) + " ms"; }

class Flames {
 public:
  explicit Flames(const StepProfile& p)
      : p_(p), scale_((kWidth - 2 * kLeft) / std::max(p.seconds(), 1e-12)) {}

  std::string drawn() {
    double at = 0;
    for (const Phase phase : kStepPhases) {
      const double seconds = p_.seconds(phase);
      bar(0, at, seconds, name_of(phase), "p", str(name_of(phase), ": ", in_ms(seconds)));
      if (phase == Phase::forward) parts(p_.modules, &ModuleProfile::forward, 1, at);
      if (phase == Phase::recompute) parts(p_.modules, &ModuleProfile::recompute, 1, at);
      if (phase == Phase::backward) parts(p_.modules, &ModuleProfile::backward, 1, at);
      at += seconds;
    }
    return page();
  }

 private:
  void parts(const ModuleProfile& whole, Cost ModuleProfile::*pass, std::int64_t depth, double at) {
    for (const ModuleProfile& m : whole.parts) {
      const Cost& cost = m.*pass;
      if (cost.seconds * scale_ < kThinnest) continue;
      const double peak = p_.share_of_peak(cost.flops, cost.seconds);
      const int colour = cost.flops == 0 ? 0 : 1 + std::clamp(static_cast<int>(peak * 4), 0, 3);
      bar(depth, at, cost.seconds, std::string(m.own_name()), str("c", colour),
          str(m.name, ": ", in_ms(cost.seconds),
              cost.flops > 0 && peak > 0 ? ", " + show::percent(peak, 1) + " of peak" : ""));
      parts(m, pass, depth + 1, at);
      at += cost.seconds;
    }
  }

  void bar(std::int64_t depth, double from, double seconds, const std::string& name, const std::string& kind,
           const std::string& title) {
    const double width = seconds * scale_;
    if (width < kThinnest) return;
    deepest_ = std::max(deepest_, depth);
    const double x = kLeft + from * scale_, y = kTop + static_cast<double>(depth) * kRow;
    body_ += str("<g><title>", svg::escaped(title), "</title><rect class=\"", kind, "\" x=\"", svg::number(x),
                 "\" y=\"", svg::number(y), "\" width=\"", svg::number(width), "\" height=\"",
                 svg::number(kRow), "\"/>");
    const auto letters = static_cast<std::int64_t>((width - 6) / kLetter);
    const std::string full = name + "  " + in_ms(seconds);
    if (show::columns(full) <= letters)
      body_ += svg::text(x + 4, y + 17, full);
    else if (show::columns(name) <= letters)
      body_ += svg::text(x + 4, y + 17, name);
    body_ += "</g>\n";
  }

  std::string page() const {
    const double height = kTop + static_cast<double>(deepest_ + 1) * kRow + 20;
    std::string out =
        str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", svg::number(kWidth), " ",
            svg::number(height), "\" width=\"", svg::number(kWidth), "\" height=\"", svg::number(height),
            "\">\n", kStyle, "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n");
    out += svg::text(kLeft, 28, str(p_.run, ": where step ", p_.step, " spends its time"), "start", "t");
    std::string facts =
        str(p_.architecture, ", ", show::count(p_.tokens), " tokens in ", in_ms(p_.seconds()));
    if (p_.peak_flops > 0)
      facts +=
          ", " + show::percent(p_.share_of_peak(p_.flops(), p_.seconds()), 1) + " of the machine's FLOP/s";
    if (p_.ranks > 1) facts += str("; rank 0 of ", p_.ranks);
    out += svg::text(kLeft, 48, facts, "start", "s");
    return out + legend() + body_ + "</svg>\n";
  }

  std::string legend() const {
    std::string out;
    double x = kLeft;
    for (const auto& [kind, words] : {std::pair{"c0", "no products"},
                                      {"c1", "below 25 % of peak"},
                                      {"c2", "25 to 50 %"},
                                      {"c3", "50 to 75 %"},
                                      {"c4", "above 75 %"}}) {
      out +=
          str("<rect class=\"", kind, "\" x=\"", svg::number(x), "\" y=\"58\" width=\"14\" height=\"14\"/>");
      out += svg::text(x + 20, 69, words, "start", "s");
      x += 40 + kLetter * static_cast<double>(show::columns(words));
    }
    return out;
  }

  const StepProfile& p_;
  double scale_;
  std::int64_t deepest_ = 0;
  std::string body_;
};

}  // namespace

std::string as_svg(const StepProfile& p) { return Flames(p).drawn(); }

}  // namespace ft
