#include "app/report/page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "app/plot/loss_plot.h"
#include "app/report/chart.h"
#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using svg::escaped;

constexpr const char* kPageStyle = R"(
:root{color-scheme:light dark;--bg:#fff;--ink:#1f2328;--soft:#57606a;--rule:#e1e5ea;--card:#f6f8fa}
@media (prefers-color-scheme:dark){:root{--bg:#0f1318;--ink:#e8ecf1;--soft:#9aa4af;
 --rule:#262d36;--card:#161b22}}
body{margin:0 auto;max-width:1080px;padding:32px 20px;background:var(--bg);color:var(--ink);
 font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 12px}p,.soft{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:14px}
 td,th{padding:5px 10px;border-top:1px solid var(--rule);
 text-align:left;vertical-align:top;overflow-wrap:anywhere}th{color:var(--soft);font-weight:600}
.answers th{white-space:nowrap}.answers td:first-child{min-width:12em}
.n{text-align:right;font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:1fr 1fr;gap:16px}
@media (max-width:760px){.charts{grid-template-columns:1fr}}
.card{background:var(--card);border:1px solid var(--rule);border-radius:8px;
 padding:10px}svg{width:100%;height:auto;display:block}svg text{font-size:12px;fill:var(--soft)}
svg .t{font-size:14px;font-weight:600;fill:var(--ink)}.g{stroke:var(--rule)}
.s{fill:none;stroke-width:2;stroke-linejoin:round}.p{fill:none;stroke-width:1;opacity:.35}
.bar{display:flex;height:26px;border-radius:6px;overflow:hidden;margin:6px 0}.bar i{display:block;height:100%}
.key{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;
 font:13px/1.45 ui-monospace,'DejaVu Sans Mono',monospace}
summary{cursor:pointer;color:var(--soft)}
)";
constexpr std::array kColours{"#2463d6", "#d4480b", "#1a8f52", "#8a4bd1",
                              "#b07d00", "#c02a72", "#0b8aa0", "#6b7280"};

std::string style() {
  std::string out = str("<style>", kPageStyle);
  for (std::size_t i = 0; i < kColours.size(); ++i)
    out += str(".c", i, "{stroke:", kColours[i], "}.d", i, "{fill:", kColours[i], "}.b", i,
               "{background:", kColours[i], "}");
  return out + "</style>";
}

std::string key_of(std::size_t colour) {
  return str("<span class=\"key b", colour % kColours.size(), "\"></span>");
}

using Figure = double (*)(const StepRow&);

std::vector<svg::Point> points_of(const RunPage& run, Figure figure) {
  std::vector<svg::Point> points;
  for (const StepRow& row : run.rows.steps) points.push_back({static_cast<double>(row.step), figure(row)});
  return points;
}

ChartSeries loss_of(const RunPage& run, std::size_t colour) {
  ChartSeries s{.name = run.name,
                .line = {},
                .pale = points_of(run, [](const StepRow& r) { return r.loss; }),
                .dots = {},
                .colour = colour};
  std::vector<LossPoint> points;
  for (const StepRow& r : run.rows.steps)
    if (std::isfinite(r.loss)) points.push_back({r.step, r.loss, r.learning_rate});
  const auto smooth = moving_average(points, std::max(1.0, static_cast<double>(points.size()) / 30));
  for (std::size_t i = 0; i < smooth.size(); ++i)
    s.line.push_back({static_cast<double>(points[i].step), smooth[i]});
  for (const EvalRow& e : run.rows.evaluations) s.dots.push_back({static_cast<double>(e.step), e.eval_loss});
  return s;
}

std::string charts(const std::vector<RunPage>& runs) {
  std::vector<ChartSeries> losses;
  for (std::size_t i = 0; i < runs.size(); ++i) losses.push_back(loss_of(runs[i], i));
  std::string out = "<div class=\"charts\">";
  const auto card = [&](const std::string& svg) {
    if (!svg.empty()) out += "<div class=\"card\">" + svg + "</div>";
  };
  card(chart_svg("loss, and held out as dots", losses, false));
  const auto chart = [&](const char* title, Figure figure, bool from_zero) {
    std::vector<ChartSeries> series;
    for (std::size_t i = 0; i < runs.size(); ++i)
      series.push_back(
          {.name = runs[i].name, .line = points_of(runs[i], figure), .pale = {}, .dots = {}, .colour = i});
    card(chart_svg(title, series, from_zero));
  };
  chart(
      "learning rate", [](const StepRow& r) { return r.learning_rate; }, true);
  chart(
      "gradient norm", [](const StepRow& r) { return r.grad_norm; }, true);
  chart(
      "tokens/s", [](const StepRow& r) { return r.tokens_per_second; }, true);
  return out + "</div>\n";
}

std::string last_loss(const RunPage& run) {
  const auto& steps = run.rows.steps;
  const auto last =
      std::find_if(steps.rbegin(), steps.rend(), [](const StepRow& r) { return !std::isnan(r.loss); });
  return last == steps.rend() ? "-" : show::loss(last->loss);
}
// The lowest held-out loss; NaN: there is none.
double best_held_out(const RunPage& run) {
  double best = NAN;
  for (const EvalRow& e : run.rows.evaluations)
    if (!(best <= e.eval_loss)) best = e.eval_loss;
  return best;
}

std::string cell(const std::string& text, bool number = false) {
  return str(number ? "<td class=\"n\">" : "<td>", escaped(text), "</td>");
}

std::string summary(const std::vector<RunPage>& runs) {
  std::string out =
      "<table><tr><th>run</th><th class=\"n\">steps</th><th class=\"n\">loss</th><th class=\"n\">best held "
      "out</th><th class=\"n\">time</th><th class=\"n\">speed</th><th class=\"n\">memory</th></tr>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunPage& r = runs[i];
    const double held_out = best_held_out(r);
    out += str("<tr><td>", key_of(i), escaped(r.name), r.ended ? "" : " (not ended)", "</td>",
               cell(r.rows.steps.empty() ? "0" : show::count(r.rows.steps.back().step), true),
               cell(last_loss(r), true), cell(std::isfinite(held_out) ? show::loss(held_out) : "-", true),
               cell(r.ended ? show::duration(r.seconds) : "-", true),
               cell(r.ended ? show::speed(r.tokens_per_second) : "-", true),
               cell(r.memory.total > 0 ? show::memory(r.memory.total) : "-", true), "</tr>\n");
  }
  return out + "</table>\n";
}

std::string facts(const RunPage& run) {
  if (run.facts.empty()) return "";
  std::string out = "<table>";
  for (const auto& [name, value] : run.facts)
    out += str("<tr><th>", escaped(name), "</th><td>", escaped(value), "</td></tr>\n");
  return out + "</table>\n";
}

std::string memory(const std::vector<RunPage>& runs) {
  static constexpr std::array kKinds{"weights",     "adapter",   "gradients",     "optimizer",
                                     "activations", "workspace", "communication", "CUDA"};
  std::string bars;
  for (const RunPage& r : runs) {
    const MemoryReport& m = r.memory;
    if (m.total <= 0) continue;
    const std::array bytes{m.weights,     m.adapter, m.gradients,     m.optimizer,
                           m.activations, m.scratch, m.communication, m.cuda};
    std::string legend;
    bars += str("<div class=\"soft\">", escaped(r.name), ", ", show::memory(m.total),
                " per rank</div><div class=\"bar\">");
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      if (bytes[i] <= 0) continue;
      const double share = 100.0 * static_cast<double>(bytes[i]) / static_cast<double>(m.total);
      bars += str("<i class=\"b", i, "\" style=\"width:", show::fixed(share, 2), "%\"></i>");
      legend += str(key_of(i), kKinds[i], " ", show::memory(bytes[i]), "&emsp;");
    }
    bars += "</div><p>" + legend + "</p>\n";
  }
  return bars.empty() ? "" : "<h2>Memory</h2>\n" + bars;
}

std::string samples(const std::vector<RunPage>& runs) {
  std::string out;
  for (const RunPage& r : runs) {
    if (r.samples.empty()) continue;
    out += str("<h2>Answers", runs.size() > 1 ? " of " + escaped(r.name) : "",
               "</h2><table "
               "class=\"answers\"><tr><th>prompt</th><th>expected</th><th>before</th><th>after</th></tr>\n");
    for (const RunPage::Sample& s : r.samples) {
      out += "<tr>";
      for (const std::string* text : {&s.prompt, &s.expected, &s.before, &s.after})
        out += "<td><pre>" + escaped(*text) + "</pre></td>";
      out += "</tr>\n";
    }
    out += "</table>\n";
  }
  return out;
}

std::string value_of(const RunPage& run, const std::string& name) {
  for (const auto& [key, value] : run.settings)
    if (key == name) return value;
  return "";
}

// Those in which the runs differ are open, the others can be unfolded.
std::string settings(const std::vector<RunPage>& runs) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const RunPage& r : runs)
    for (const auto& [name, value] : r.settings)
      if (seen.insert(name).second) names.push_back(name);
  std::string head = "<table><tr><th>setting</th>", different, same;
  for (std::size_t i = 0; i < runs.size(); ++i)
    head += str("<th>", key_of(i), escaped(runs[i].name), "</th>");
  head += "</tr>\n";
  for (const std::string& name : names) {
    std::set<std::string> values;
    std::string row = "<tr>" + cell(name);
    for (const RunPage& r : runs) {
      const std::string value = value_of(r, name);
      values.insert(value);
      row += cell(value);
    }
    (values.size() > 1 ? different : same) += row + "</tr>\n";
  }
  std::string out = "<h2>Settings</h2>\n";
  if (!different.empty()) out += head + different + "</table>\n";
  return out + str("<details><summary>", different.empty() ? "all of them" : "those that are equal",
                   "</summary>", head, same, "</table></details>\n");
}

}  // namespace

std::string report_html(const std::vector<RunPage>& runs) {
  require(!runs.empty(), "a report of at least one run");
  const std::string title =
      runs.size() == 1 ? runs[0].name : show::plural(static_cast<std::int64_t>(runs.size()), "run");
  std::string out =
      str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width\"><title>",
          escaped(title), "</title>", style(), "</head><body>\n<h1>", escaped(title), "</h1>\n");
  if (runs.size() == 1) out += facts(runs[0]) + "<h2>Result</h2>\n";
  return out + summary(runs) + "<h2>Course</h2>\n" + charts(runs) + memory(runs) + samples(runs) +
         settings(runs) + "</body></html>\n";
}

}  // namespace ft
