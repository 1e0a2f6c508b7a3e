// report.html: its content, that no text of a run becomes markup, and that it loads no other file.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "app/report/chart.h"
#include "app/report/html_report.h"
#include "app/report/page.h"
#include "app/report/run_facts.h"
#include "app/screen/format.h"
#include "engine/train/reports/json_log.h"
#include "tests/app/outcome.h"
#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

// Returns the report of a run of `steps` steps, made from the files that ft train leaves in `folder`.
std::string page_of(const std::string& folder, std::int64_t steps, const std::string& settings) {
  RunHeader header = sample_header();
  header.settings = settings;
  header.model = "models/<b>";
  header.version = "1.2.3";
  JsonLog log(folder + "/log.jsonl");
  RunFacts facts(folder + "/run_facts.json");
  HtmlReport html(folder);
  std::ofstream(folder + "/run.json") << settings;
  for (Report* r : std::initializer_list<Report*>{&log, &facts, &html}) {
    r->begin(header);
    play(*r, 1, steps);
    r->end(sample_summary(steps));
  }
  return text_of(folder + "/report.html");
}

const std::string kRun =
    R"({"training": {"learning_rate": 0.1, "seed": 1}, "logging": {"run_name": "a & b"}})";

TEST(ReportPage, ShowsTheRunWithoutOtherFiles) {
  const TestFolder folder;
  std::ofstream(folder.file("samples.json"))
      << R"([{"prompt": "2+2<script>", "expected": "4", "before": "??", "after": "4"}])";
  const std::string html = page_of(folder.path(), 10, kRun);
  for (const char* text : {"<h1>a &amp; b</h1>", "ft 1.2.3", "models/&lt;b&gt;", "held out", "learning rate",
                           "training.learning_rate", "2+2&lt;script&gt;", "activations", "best held out"})
    EXPECT_NE(html.find(text), std::string::npos) << text;
  for (const char* text : {"<script", "http", "src=", "@import", "url("})
    EXPECT_EQ(html.find(text), std::string::npos) << text;
  std::size_t charts = 0;
  for (std::size_t at = 0; (at = html.find("<svg", at)) != html.npos; ++at) ++charts;
  EXPECT_EQ(charts, 4u);
}

TEST(ReportPage, DrawsEveryStepAndRewards) {
  const TestFolder folder;
  RunHeader header = sample_header();
  header.settings =
      R"({"data": {"datasets": [{"path": "a.jsonl", "type": "text", "split": null}, {"path": "b.jsonl"}]}})";
  header.processor = "A Processor, 2 cores";
  header.started = "2026-01-02 03:04";
  header.learning_rate = 1e-6;
  header.schedule = "linear";
  std::ofstream(folder.file("samples.json"))
      << R"([{"prompt": "<|im_start|>user\n2+2\n?", "expected": "4", "before": "a\n\nb", "after": "4"}])";
  JsonLog log(folder.file("log.jsonl"));
  RunFacts facts(folder.file("run_facts.json"));
  HtmlReport html(folder.path());
  for (Report* r : std::initializer_list<Report*>{&log, &facts, &html}) {
    r->begin(header);
    for (int step = 1; step <= 12; ++step) {
      StepRow row = sample_step(step);
      row.columns = {{"reward", 0.1 * step}};
      r->progress(row);
      if (step % 4 == 0) r->step(row);
    }
    EvalRow eval = sample_evaluation(12, 0.5, true);
    eval.measures = {{"bleu", 71.25}, {"gen_len", 3}};
    r->evaluation(eval);
    r->end(sample_summary(12));
  }
  const std::string page = text_of(folder.file("report.html"));
  for (const char* text :
       {"A Processor, 2 cores", "2026-01-02 03:04", "1.0e-06, linear", "rewards: reward 1.20",
        "<th class=\"n\">bleu</th>", ">71.2<", "data.datasets[0].path", "<td>a.jsonl</td>",
        "data.datasets[1].path", "&lt;|im_start|&gt;user\n2+2\n?", "a\n\nb"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  EXPECT_EQ(page.find("split"), std::string::npos) << "what is null says nothing";
  EXPECT_EQ(page.find("overflow-wrap:anywhere"), std::string::npos) << "words stay whole";
  const std::size_t curve = page.find("class=\"s c0\" d=\""), end = page.find("\"/>", curve);
  const std::string path = page.substr(curve, end - curve);
  EXPECT_GE(std::count(path.begin(), path.end(), ' ') + std::count(path.begin(), path.end(), '-'), 11)
      << path;
}

TEST(ReportPage, ComparesRunsByTheSettingsInWhichTheyDiffer) {
  const TestFolder one, two, to;
  page_of(one.path(), 10, kRun);
  page_of(two.path(), 5, R"({"training": {"learning_rate": 0.2, "seed": 1}})");
  const std::string page = to.file("page.html");
  const Outcome o = run({"report", one.path(), two.path(), "--output", page});
  ASSERT_EQ(o.code, 0) << o.err;
  const std::string html = text_of(page);
  EXPECT_NE(html.find("<h1>2 runs</h1>"), std::string::npos);
  const std::size_t folded = html.find("<details>");
  EXPECT_LT(html.find("training.learning_rate"), folded);
  EXPECT_GT(html.find("training.seed"), folded);
  EXPECT_EQ(run({"report", one.path(), "--output", page}).code, 2);
  EXPECT_EQ(text_of(page), html) << "nothing is overwritten";
  const Outcome none = run({"report", to.path(), "--output", to.file("other.html")});
  EXPECT_EQ(none.code, 3);
  EXPECT_EQ(none.err, to.path() + ": holds no run: there is no run.json\n");
}

TEST(ReportPage, ARunThatHasNotEnded) {
  const TestFolder folder;
  page_of(folder.path(), 4, kRun);
  std::string log = text_of(folder.file("log.jsonl"));
  log.resize(log.rfind("{\"step\":4,\"epoch\":0.4,\"train_loss\""));
  std::ofstream(folder.file("log.jsonl")) << log << "{\"step\": 5, \"lo";
  const Outcome o = run({"report", folder.path(), "--output", folder.file("page.html")});
  ASSERT_EQ(o.code, 0) << o.err;
  const std::string page = text_of(folder.file("page.html"));
  for (const std::string& text :
       {std::string("(not ended)"), std::string("ft 1.2.3"), "4 of " + show::count(sample_header().steps)})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

TEST(Chart, LongLinesKeepTheirPeaksAndBadNumbersAreLeftOut) {
  ChartSeries s{.name = "a", .line = {}, .pale = {}, .dots = {}};
  EXPECT_EQ(chart_svg("t", {s}, false), "");
  s.line = {{1, NAN}, {2, INFINITY}};
  EXPECT_EQ(chart_svg("t", {s}, false), "");
  s.line = {{1, 2}};
  EXPECT_NE(chart_svg("t", {s}, true), "") << "one point";
  s.line.clear();
  for (int i = 0; i < 100000; ++i) s.line.push_back({static_cast<double>(i), i == 54321 ? 9.0 : 1.0 + i % 2});
  EXPECT_LT(chart_svg("t", {s}, false).size(), 40000u);
}

}  // namespace
}  // namespace ft
