#include "app/report/page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>

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
 td,th{padding:5px 10px;border-top:1px solid var(--rule);text-align:left;vertical-align:top}
 th{color:var(--soft);font-weight:600}.facts th{white-space:nowrap}
.wide{overflow-x:auto}.k,.runs td,.settings td:first-child{white-space:nowrap}
 .k{margin-right:1em}.answers td{min-width:12em}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.charts{display:grid;grid-template-columns:1fr 1fr;gap:16px}
@media (max-width:760px){.charts{grid-template-columns:1fr}.answers tr:first-child{display:none}
 .answers tr,.answers td{display:block}.answers td::before{content:attr(data-of);color:var(--soft)}
}
.card{background:var(--card);border:1px solid var(--rule);border-radius:8px;
 padding:10px}svg{width:100%;height:auto;display:block}svg text{font-size:12px;fill:var(--soft)}
svg .t{font-size:14px;font-weight:600;fill:var(--ink)}
@media (max-width:480px){svg{overflow:visible}svg text{font-size:17px}svg .t{font-size:20px}}
.g{stroke:var(--rule)}
.s{fill:none;stroke-width:2;stroke-linejoin:round}.p{fill:none;stroke-width:1;opacity:.35}
.bar{display:flex;height:26px;border-radius:6px;overflow:hidden;margin:6px 0}.bar i{display:block;height:100%}
.key{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
pre{white-space:pre-wrap;overflow-wrap:break-word;margin:0;
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

using Figure = double StepFigures::*;

std::vector<svg::Point> points_of(const RunPage& run, Figure figure) {
  std::vector<svg::Point> points;
  for (const StepFigures& s : run.curves.steps) points.push_back({static_cast<double>(s.step), s.*figure});
  return points;
}

ChartSeries loss_of(const RunPage& run, std::size_t colour) {
  ChartSeries s{
      .name = run.name, .line = {}, .pale = points_of(run, &StepFigures::loss), .dots = {}, .colour = colour};
  std::vector<LossPoint> points;
  for (const StepFigures& f : run.curves.steps)
    if (std::isfinite(f.loss)) points.push_back({f.step, f.loss, f.learning_rate});
  const auto smooth = moving_average(points, std::max(1.0, static_cast<double>(points.size()) / 12));
  for (std::size_t i = 0; i < smooth.size(); ++i)
    s.line.push_back({static_cast<double>(points[i].step), smooth[i]});
  for (const EvalRow& e : run.rows.evaluations) s.dots.push_back({static_cast<double>(e.step), e.eval_loss});
  return s;
}

// Draws all reward curves of a single run; for several runs, one curve of each: its reward or margin.
std::string reward_chart(const std::vector<RunPage>& runs) {
  std::vector<ChartSeries> series;
  std::string title = "rewards";
  const auto add = [&](const RewardCurve& curve, std::size_t colour) {
    series.push_back({.name = curve.name, .line = curve.points, .pale = {}, .dots = {}, .colour = colour});
  };
  if (runs.size() == 1) {
    const auto& curves = runs[0].curves.rewards.all();
    for (std::size_t i = 0; i < curves.size(); ++i) {
      add(curves[i], i);
      title += str(i == 0 ? ": " : ", ", curves[i].name, " ", show::digits(curves[i].points.back().y));
    }
  } else {
    for (std::size_t i = 0; i < runs.size(); ++i)
      for (const RewardCurve& curve : runs[i].curves.rewards.all())
        if (curve.column == "reward" || curve.column.ends_with("margins") || curve.column == "margin")
          add(curve, i);
  }
  return chart_svg(title, series, false);
}

std::string charts(const std::vector<RunPage>& runs) {
  std::vector<ChartSeries> losses;
  for (std::size_t i = 0; i < runs.size(); ++i) losses.push_back(loss_of(runs[i], i));
  std::string out = "<div class=\"charts\">";
  const auto card = [&](const std::string& svg) {
    if (!svg.empty()) out += "<div class=\"card\">" + svg + "</div>";
  };
  card(chart_svg("loss (line: training, dots: held out)", losses, false));
  card(reward_chart(runs));
  const auto chart = [&](const char* title, Figure figure) {
    std::vector<ChartSeries> series;
    for (std::size_t i = 0; i < runs.size(); ++i)
      series.push_back(
          {.name = runs[i].name, .line = points_of(runs[i], figure), .pale = {}, .dots = {}, .colour = i});
    card(chart_svg(title, series, true));
  };
  chart("learning rate", &StepFigures::learning_rate);
  chart("gradient norm", &StepFigures::grad_norm);
  chart("tokens/s", &StepFigures::tokens_per_second);
  return out + "</div>\n";
}

std::string last_loss(const RunPage& run) {
  const auto& steps = run.rows.steps;
  const auto last =
      std::find_if(steps.rbegin(), steps.rend(), [](const StepRow& r) { return !std::isnan(r.loss); });
  return last == steps.rend() ? "-" : show::loss(last->loss);
}
// Returns the lowest held-out loss; NaN: there is none.
double best_held_out(const RunPage& run) {
  double best = NAN;
  for (const EvalRow& e : run.rows.evaluations)
    if (std::isfinite(e.eval_loss) && !(best <= e.eval_loss)) best = e.eval_loss;
  return best;
}

std::string cell(const std::string& text, bool number = false) {
  return str(number ? "<td class=\"n\">" : "<td>", escaped(text), "</td>");
}

// Returns a table that scrolls if it is wider than the page.
std::string table(const std::string& rows, const char* kind = "") {
  return str("<div class=\"wide\"><table", *kind ? str(" class=\"", kind, "\"") : "", ">", rows,
             "</table></div>\n");
}

// Returns the measures of a run's last evaluation that are shown beside its loss, and the last reward.
Measures figures_of(const RunPage& run) {
  static constexpr std::array kShown{"bleu",           "chrf",     "rougeL", "exact_match",
                                     "reward",         "accuracy", "margin", "rewards/accuracies",
                                     "rewards/margins"};
  Measures out;
  if (!run.rows.evaluations.empty())
    for (const auto& [name, value] : run.rows.evaluations.back().measures)
      if (std::ranges::find(kShown, name) != kShown.end()) out.emplace_back(name, value);
  const bool held_out = std::ranges::any_of(out, [](const auto& m) { return m.first == "reward"; });
  for (const RewardCurve& curve : run.curves.rewards.all())
    if (curve.column == "reward" && !held_out) out.emplace_back("reward", curve.points.back().y);
  return out;
}

// Returns the steps that a run has made, and of a run that has not ended how many it will make.
std::string steps_text(const RunPage& run) {
  const std::string made = run.rows.steps.empty() ? "0" : show::count(run.rows.steps.back().step);
  return run.ended || run.max_steps == 0 ? made : made + " of " + show::count(run.max_steps);
}

double speed_of(const RunPage& run) {
  if (run.ended) return run.tokens_per_second;
  return run.rows.steps.empty() ? 0 : run.rows.steps.back().tokens_per_second;
}

std::string summary(const std::vector<RunPage>& runs) {
  std::vector<std::string> names;
  for (const RunPage& r : runs)
    for (const auto& [name, value] : figures_of(r))
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  std::string out = "<tr><th>run</th>";
  const auto head = [&](const std::string& name) { out += "<th class=\"n\">" + escaped(name) + "</th>"; };
  for (const char* name : {"steps", "loss", "best held out"}) head(name);
  for (const std::string& name : names) head(name);
  for (const char* name : {"time", "speed", "memory"}) head(name);
  out += "</tr>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunPage& r = runs[i];
    const double held_out = best_held_out(r);
    out += str("<tr><td>", key_of(i), escaped(r.name), r.ended ? "" : " (not ended)", "</td>",
               cell(steps_text(r), true), cell(last_loss(r), true),
               cell(std::isfinite(held_out) ? show::loss(held_out) : "-", true));
    const Measures figures = figures_of(r);
    for (const std::string& name : names) {
      const auto at = std::ranges::find_if(figures, [&](const auto& m) { return m.first == name; });
      out += cell(at == figures.end() ? "-" : show::digits(at->second), true);
    }
    out += str(cell(r.ended ? show::duration(r.seconds) : "-", true),
               cell(speed_of(r) > 0 ? show::speed(speed_of(r)) : "-", true),
               cell(r.memory.total > 0 ? show::memory(r.memory.total) : "-", true), "</tr>\n");
  }
  return table(out, "runs");
}

std::string facts(const RunPage& run) {
  if (run.facts.empty()) return "";
  std::string out;
  for (const auto& [name, value] : run.facts)
    out += str("<tr><th>", escaped(name), "</th>", cell(value), "</tr>\n");
  return table(out, "facts");
}

std::string memory(const std::vector<RunPage>& runs) {
  static constexpr std::array kKinds{"weights",   "adapter",       "gradients", "optimizer", "activations",
                                     "workspace", "communication", "CUDA",      "snapshot"};
  std::string bars;
  for (const RunPage& r : runs) {
    const MemoryReport& m = r.memory;
    if (m.total <= 0) continue;
    const std::array bytes{m.weights, m.adapter,       m.gradients, m.optimizer, m.activations,
                           m.scratch, m.communication, m.cuda,      m.snapshot};
    std::string legend;
    bars += str("<div class=\"soft\">", escaped(r.name), ", ", show::memory(m.total),
                r.ended ? " per rank" : " per rank planned", "</div><div class=\"bar\">");
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      if (bytes[i] <= 0) continue;
      const double share = 100.0 * static_cast<double>(bytes[i]) / static_cast<double>(m.total);
      bars +=
          str("<i class=\"b", i % kColours.size(), "\" style=\"width:", show::fixed(share, 2), "%\"></i>");
      legend += str("<span class=\"k\">", key_of(i), kKinds[i], " ", show::memory(bytes[i]), "</span> ");
    }
    bars += "</div><p>" + legend + "</p>\n";
  }
  return bars.empty() ? "" : "<h2>Memory</h2>\n" + bars;
}

// Returns the escaped text with its line breaks.
std::string lines_of(const std::string& text) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out += (out.empty() ? "" : "\n") + escaped(line);
  return out;
}

std::string samples(const std::vector<RunPage>& runs) {
  std::string out;
  for (const RunPage& r : runs) {
    if (r.samples.empty()) continue;
    const char* const after = r.ended ? "after" : "now";
    std::string rows = str("<tr><th>prompt</th><th>expected</th><th>before</th><th>", after, "</th></tr>\n");
    for (const RunPage::Sample& s : r.samples) {
      rows += "<tr>";
      for (const auto& [name, text] : {std::pair{"prompt", &s.prompt},
                                       {"expected", &s.expected},
                                       {"before", &s.before},
                                       {after, &s.after}})
        rows += str("<td data-of=\"", name, "\"><pre>", lines_of(*text), "</pre></td>");
      rows += "</tr>\n";
    }
    out +=
        str("<h2>Answers", runs.size() > 1 ? " of " + escaped(r.name) : "", "</h2>", table(rows, "answers"));
  }
  return out;
}

std::string value_of(const RunPage& run, const std::string& name) {
  for (const auto& [key, value] : run.settings)
    if (key == name) return value;
  return "";
}

// Shows the settings that differ between the runs; the others can be unfolded.
std::string settings(const std::vector<RunPage>& runs) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const RunPage& r : runs)
    for (const auto& [name, value] : r.settings)
      if (seen.insert(name).second) names.push_back(name);
  std::string head = "<tr><th>setting</th>", different, same;
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
  if (!different.empty()) out += table(head + different, "settings");
  return out + str("<details><summary>", different.empty() ? "all settings" : "equal settings", "</summary>",
                   table(head + same, "settings"), "</details>\n");
}

}  // namespace

std::string report_html(const std::vector<RunPage>& runs, const std::string& live) {
  require(!runs.empty(), "a report of at least one run");
  const std::string title =
      runs.size() == 1 ? runs[0].name : show::plural(static_cast<std::int64_t>(runs.size()), "run");
  std::string out =
      str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width\"><title>",
          escaped(title), "</title>", style(), "</head><body>\n<h1>", escaped(title), "</h1>\n", live);
  const bool one = runs.size() == 1;
  for (const auto& [name, content] : {std::pair<const char*, std::string>{"facts", one ? facts(runs[0]) : ""},
                                      {"result", (one ? "<h2>Result</h2>\n" : "") + summary(runs)},
                                      {"course", "<h2>Course</h2>\n" + charts(runs)},
                                      {"memory", memory(runs)},
                                      {"answers", samples(runs)},
                                      {"settings", settings(runs)}})
    out += str("<section id=\"", name, "\">", content, "</section>\n");
  return out + "</body></html>\n";
}

}  // namespace ft
