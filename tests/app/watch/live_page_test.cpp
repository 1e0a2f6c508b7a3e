// The page of ft watch: what it shows of a run that goes on, and that it becomes report.html.
#include "app/watch/live_page.h"

#include <gtest/gtest.h>

#include "app/report/html_report.h"
#include "app/report/run_facts.h"
#include "engine/core/error.h"
#include "engine/train/reports/json_log.h"
#include "tests/app/outcome.h"
#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

// A run that goes on as far as the test wants.
struct Going : TestFolder {
  Going() {
    std::ofstream(file("run.json")) << R"({"logging": {"run_name": "a & b"}})";
    header.settings = text_of(file("run.json"));
    header.memory.weights = header.memory.total = 1 << 20;
  }
  void begin() {
    for (Report* r : all) r->begin(header);
  }
  void go(int from, int to) {
    for (Report* r : all) play(*r, from, to);
  }
  void end(int step) {
    for (Report* r : all) r->end(sample_summary(step));
  }
  RunHeader header = sample_header();
  JsonLog log{file("log.jsonl")};
  RunFacts facts{file("run_facts.json")};
  HtmlReport html{path()};
  std::vector<Report*> all{&log, &facts, &html};
};

bool shows(const std::string& page, const std::string& text) { return page.find(text) != std::string::npos; }

TEST(LivePage, FollowsARunToItsReport) {
  Going run;
  LivePage page({run.path()});
  EXPECT_TRUE(shows(page.html(), "a &amp; b: no step yet"));
  run.begin();
  run.go(1, 3);
  const std::string early = page.html();
  EXPECT_TRUE(shows(early, "a &amp; b: step 3 of " + std::to_string(run.header.steps) + ", ")) << early;
  EXPECT_TRUE(shows(early, " left; last row at ")) << early;
  EXPECT_TRUE(shows(early, "per rank planned")) << "the memory is known before the end";
  EXPECT_TRUE(shows(early, "<script>"));
  EXPECT_EQ(page.html(), early) << "nothing has changed";
  run.go(4, 5);
  EXPECT_TRUE(shows(page.html(), "step 5 of"));
  std::ofstream(run.file("samples.json"))
      << R"([{"prompt": "<p>", "expected": "4", "before": "??", "after": "3"}])";
  EXPECT_TRUE(shows(page.html(), "data-of=\"now\"><pre>3</pre>"));
  run.end(5);
  const std::string last = page.html();
  EXPECT_EQ(last, text_of(run.file("report.html")));
  EXPECT_FALSE(shows(last, "<script"));
  EXPECT_TRUE(shows(last, "data-of=\"after\"><pre>3</pre>"));
}

TEST(LivePage, SeveralRunsAreOnePageUntilAllHaveEnded) {
  Going one, two;
  for (Going* run : {&one, &two}) {
    run->begin();
    run->go(1, 2);
  }
  LivePage page({one.path(), two.path()});
  one.end(2);
  const std::string half = page.html();
  EXPECT_TRUE(shows(half, ": ended after ")) << half;
  EXPECT_TRUE(shows(half, "<script>"));
  two.end(2);
  const Outcome o = run({"report", one.path(), two.path(), "--output", one.file("both.html")});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(page.html(), text_of(one.file("both.html")));
}

// A report that an earlier part of the run wrote is not the end of this one.
TEST(LivePage, AnOldReportIsNotShown) {
  Going run;
  run.begin();
  run.go(1, 2);
  run.end(2);
  std::ofstream(run.file("report.html")) << "old";
  const auto log = std::filesystem::last_write_time(run.file("log.jsonl"));
  std::filesystem::last_write_time(run.file("report.html"), log - std::chrono::seconds(1));
  EXPECT_TRUE(shows(LivePage({run.path()}).html(), "<h1>a &amp; b</h1>"));
}

TEST(LivePage, AFolderWithoutARunIsNamed) {
  const TestFolder empty;
  try {
    const LivePage page({empty.path()});
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()), empty.path() + ": holds no run: there is no run.json");
  }
  Going run;
  LivePage page({run.path()});
  std::ofstream(run.file("run_facts.json")) << "[]";
  EXPECT_THROW(page.html(), UserError);
  std::filesystem::remove(run.file("run_facts.json"));
  EXPECT_TRUE(shows(page.html(), "no step yet")) << "it goes on when the file is right again";
}

}  // namespace
}  // namespace ft
