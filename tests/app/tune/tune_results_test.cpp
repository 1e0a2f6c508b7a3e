// The table in which ft tune shows its results.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/tune/results.h"

namespace ft {
namespace {

TuneResults example() {
  TuneResults r;
  r.labels = {"zero", "batch"};
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  r.rows = {{{"", "4 x 2"}, R"({"a": 4})", 2 * kGiB, NAN, 1000, 2, "done"},
            {{"3", "8 x 1"}, R"({"a": 8})", 3 * kGiB, 1800, 2000, 1, "done"},
            {{"2", "8 x 1"}, R"({"a": 9})", 4 * kGiB, 1500, NAN, NAN, ""},
            {{"1", "8 x 1"}, R"({"a": 7})", 4 * kGiB, 1500, NAN, NAN, "exit 7: a | b"}};
  r.trials = {0, 1, 3};
  r.best = 1;
  r.start = 0;
  r.too_large = 5;
  return r;
}

TEST(TuneResults, ForATerminal) {
  const TuneResults r = example();
  EXPECT_EQ(r.header(), "zero  batch     GiB  predicted   tok/s  s/step  result");
  EXPECT_EQ(r.line(r.rows[0]), "   -  4 x 2    2.00          -   1.00k    2.00  done");
  EXPECT_EQ(r.line(r.rows[1]), "   3  8 x 1    3.00      1.80k   2.00k    1.00  done");
  EXPECT_EQ(r.settings(r.rows[0]), "batch 4 x 2");
  EXPECT_EQ(r.settings(r.rows[1]), "zero 3, batch 8 x 1");
}

TEST(TuneResults, ForProgramsAndPeople) {
  const TuneResults r = example();
  EXPECT_NE(r.markdown().find("| 1 | 8 x 1 | 4.00 | 1.50k | - | - | exit 7: a \\| b |"), std::string::npos)
      << r.markdown();
  const nlohmann::ordered_json j = nlohmann::ordered_json::parse(r.json("throughput", "tuned.json"));
  EXPECT_EQ(j["metric"], "throughput");
  EXPECT_EQ(j["best"]["settings"]["a"], 8);
  EXPECT_EQ(j["best"]["tokens_per_second"], 2000);
  EXPECT_EQ(j["start"]["seconds_per_step"], 2);
  EXPECT_EQ(j["trials"].size(), 3u);
  EXPECT_TRUE(j["trials"][2]["tokens_per_second"].is_null());
  EXPECT_EQ(j["fit"], 4);
  EXPECT_EQ(j["too_large"], 5);
  EXPECT_EQ(j["config"], "tuned.json");
}

TEST(TuneResults, AreDrawn) {
  TuneResults r = example();
  const std::string svg = r.svg("a <title>");
  EXPECT_NE(svg.find("a &lt;title&gt;"), std::string::npos);
  EXPECT_NE(svg.find("best: zero 3, batch 8 x 1"), std::string::npos);
  EXPECT_NE(svg.find("<text x=\"70\" y=\"369\" text-anchor=\"middle\">0</text>"), std::string::npos)
      << "the axis of memory begins at 0";
  r.trials = {};
  EXPECT_EQ(r.svg("x"), "");
}

}  // namespace
}  // namespace ft
