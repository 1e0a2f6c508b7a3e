// loss.svg is well-formed XML, small, and shows the right values at the right places.
#include "app/plot/loss_plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "app/plot/svg.h"
#include "tests/engine/train/sample_run.h"
#include "tests/support/times.h"

namespace ft {
namespace {

// Returns the first fault of a text as XML; empty if it is well-formed. Checks as much of XML as a drawing
// uses: elements, quoted attributes, the predefined entities.
std::string xml_fault(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  const auto bad_entity = [](const std::string& s) {
    for (std::size_t i = 0; (i = s.find('&', i)) != std::string::npos; ++i) {
      const std::string entity = s.substr(i, s.find(';', i) - i + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") return true;
    }
    return false;
  };
  while (at < text.size()) {
    if (text[at] != '<') {
      const std::size_t end = std::min(text.find('<', at), text.size());
      const std::string words = text.substr(at, end - at);
      if (bad_entity(words) || words.find('>') != std::string::npos) return "text: " + words;
      if (open.empty() && words.find_first_not_of(" \n") != std::string::npos) return "outside: " + words;
      at = end;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "no end of a tag";
    std::string tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) return "unbalanced " + tag;
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with("/");
    if (closed) tag.pop_back();
    const std::string name = tag.substr(0, tag.find(' '));
    std::string rest = tag.substr(name.size());
    while (!rest.empty()) {
      const std::size_t equals = rest.find("=\""), quote = rest.find('"', equals + 2);
      if (rest[0] != ' ' || equals == std::string::npos || quote == std::string::npos)
        return "attributes of " + tag;
      const std::string value = rest.substr(equals + 2, quote - equals - 2);
      if (bad_entity(value) || value.find('<') != std::string::npos) return "attribute " + value;
      rest = rest.substr(quote + 1);
    }
    if (!closed) open.push_back(name);
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

TEST(LossPlot, TheCheckerOfXmlFindsFaults) {
  EXPECT_EQ(xml_fault("<a x=\"1\"><b/>hi &amp; <c>y</c></a>"), "");
  for (const char* bad : {"<a>", "<a></b>", "<a x=1/>", "<a>&x;</a>", "<a x=\"<\"/>", "<a/>text"})
    EXPECT_NE(xml_fault(bad), "") << bad;
}

LossCurve curve_of(int n, int evaluations) {
  LossCurve c;
  c.title = "a <b> & \"c\"";
  c.subtitle = "from x\ny";
  c.steps_per_epoch = std::max(1, n / 3);
  for (int i = 1; i <= n; ++i)
    c.points.push_back({i, 1 + std::exp(-5.0 * i / n) + 0.1 * std::sin(i * 1.7), 1e-4 * (1 - i / (n + 1.0))});
  for (int i = 1; i <= evaluations; ++i)
    c.evaluations.push_back({.step = static_cast<std::int64_t>(n) * i / evaluations, .eval_loss = 1.5 / i});
  return c;
}

TEST(LossPlot, IsWellFormedAndSmallForEveryLength) {
  for (const int n : {1, 2, 3, 10, 75, 1000, 100000})
    for (const int evaluations : {0, 1, 5, 200}) {
      const std::string svg = loss_svg(curve_of(n, std::min(n, evaluations)));
      EXPECT_EQ(xml_fault(svg), "") << n;
      EXPECT_LT(svg.size(), 16000u) << n;
      EXPECT_EQ(svg.find("nan"), std::string::npos);
      EXPECT_EQ(svg.find("inf"), std::string::npos);
      EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
      EXPECT_LE(test::times(svg, "class=\"d\" cx=\""), 61u + 1);
    }
}

TEST(LossPlot, NothingFiniteIsNoPicture) {
  EXPECT_EQ(loss_svg({}), "");
  LossCurve c;
  c.points = {{1, NAN, 1e-4}};
  EXPECT_EQ(loss_svg(c), "");
  c.points.push_back({2, 1.0, 1e-4});
  c.evaluations.push_back({.step = 2, .eval_loss = INFINITY});
  EXPECT_EQ(xml_fault(loss_svg(c)), "");
}

TEST(LossPlot, LossesThatFallFarAreDrawnOnALogarithmicAxis) {
  LossCurve c = curve_of(100, 0);
  EXPECT_EQ(loss_svg(c).find("log scale"), std::string::npos);
  for (auto& p : c.points) p.loss = std::exp(-0.1 * static_cast<double>(p.step));
  EXPECT_NE(loss_svg(c).find("log scale"), std::string::npos);
}

TEST(LossPlot, ExtremesOfLongRunsSurvive) {
  LossCurve c = curve_of(100000, 0);
  for (auto& p : c.points) p.loss = 1;
  c.points[50000].loss = 1.02;  // one step of many
  const std::string svg = loss_svg(c);
  const std::size_t raw = svg.find("class=\"raw\" d=\"M");
  const std::string path = svg.substr(raw, svg.find('/', raw) - raw);
  EXPECT_EQ(test::times(path, "-"), 1u) << path;  // a rise, which is negative on a page
}

TEST(LossPlot, MovingAverageIsNeitherLateNorEarly) {
  std::vector<LossPoint> falling;
  for (int i = 0; i < 40; ++i) falling.push_back({i + 1, 4 - 0.1 * i + (i % 2 ? 0.01 : -0.01), 0});
  const auto a = moving_average(falling, 9);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], 4 - 0.1 * static_cast<double>(i), 0.0101) << i;
  EXPECT_NEAR(a[20], 2, 0.002) << "the noise is gone";
  EXPECT_EQ(a.back(), falling.back().loss) << "it ends where the run ended";
  EXPECT_EQ(moving_average(falling, 1)[7], falling[7].loss) << "a window of one is the loss itself";
}

TEST(LossPlot, TheLastLossIsThatOfTheLog) {
  const TestFolder folder;
  LossPlot plot(folder.file("loss.svg"));
  plot.begin(sample_header());
  for (int i = 1; i <= 15; ++i) plot.progress(sample_step(i));
  StepRow row = sample_step(15);
  row.loss = 1.363;  // the mean of the steps since the row before
  plot.step(row);
  plot.end(sample_summary(15));
  EXPECT_NE(text_of(folder.file("loss.svg")).find(">1.363<"), std::string::npos);
}

TEST(LossPlot, ResumedRunShowsThePastToo) {
  const TestFolder folder;
  RunHeader header = sample_header();
  header.resumed_step = 2;
  header.past.steps = {sample_step(1), sample_step(2)};
  header.past.evaluations = {sample_evaluation(2, 0.9, true)};
  LossPlot plot(folder.file("loss.svg"));
  plot.begin(header);
  play(plot, 3, 5);
  plot.end(sample_summary(5));
  const std::string svg = text_of(folder.file("loss.svg"));
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(test::times(svg, "class=\"d\" cx=\""), 2u + 1);  // two evaluations and the legend
}

TEST(LossPlot, RewardsAreDrawnIfLogged) {
  EXPECT_EQ(loss_svg(curve_of(100, 5)).find("rewards"), std::string::npos);
  for (const int n : {1, 2, 75, 100000}) {
    LossCurve c = curve_of(n, 3);
    for (int i = 1; i <= n; ++i)
      c.rewards.add(i, {{"rewards/chosen", 0.01 * i},
                        {"logps/chosen", -1e6},
                        {"rewards/rejected", i % 7 == 0 ? NAN : -0.02 * i},
                        {"rewards/margins", 3}});
    const std::string svg = loss_svg(c);
    EXPECT_EQ(xml_fault(svg), "") << n;
    EXPECT_LT(svg.size(), 20000u) << n;
    for (const char* words : {">rewards<", ">margin 3", ">chosen ", ">rejected ", ">loss<"})
      EXPECT_NE(svg.find(words), std::string::npos) << words;
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("nats per token"), std::string::npos);
    EXPECT_EQ(test::times(svg, "class=\"w"), 3u);
  }
}

TEST(Svg, Ticks) {
  EXPECT_EQ(svg::ticks(0, 10, 6), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(svg::ticks(0.13, 0.41, 4), (std::vector<double>{0.2, 0.30000000000000004, 0.4}));
  EXPECT_EQ(svg::ticks(3, 3, 4), std::vector<double>{3});
  EXPECT_EQ(svg::log_ticks(0.009, 1.1, 6), (std::vector<double>{0.01, 0.03, 0.1, 0.3, 1}));
  for (double high = 1e-6; high < 1e9; high *= 1.37)
    for (int most = 3; most < 10; ++most) {
      const auto ticks = svg::ticks(0, high, most);
      EXPECT_GE(ticks.size(), 2u) << high;
      EXPECT_LE(ticks.size(), static_cast<std::size_t>(most));
    }
}

TEST(Svg, PathsAreShort) {
  EXPECT_EQ(svg::path({{10, 20}, {11.5, 19}, {11.5, 19.04}, {12, 20}}), "M10 20l1.5-1 .5 1");
  EXPECT_EQ(svg::path({{10, 20}}), "M10 20h0");
  EXPECT_EQ(svg::escaped("<a & \"b\">\n"), "&lt;a &amp; &quot;b&quot;&gt; ");
}

}  // namespace
}  // namespace ft
