// Bytes that reach the screen: a live line only where one is wanted, complete lines otherwise.
#include "app/screen/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "app/screen/curve.h"
#include "app/screen/format.h"
#include "tests/engine/train/sample_run.h"
#include "tests/support/times.h"

namespace ft {
namespace {

struct Recorder {
  std::string text;
  Screen::Options options(bool live, int width) {
    Screen::Options o;
    o.live = live;
    if (width > 0) o.width = [width] { return width; };
    o.write = [this](const std::string& piece) { text += piece; };
    return o;
  }
};

LoggingConfig with_progress(ProgressStyle progress, LogLevel level = LogLevel::info) {
  LoggingConfig config;
  config.progress = progress;
  config.log_level = level;
  return config;
}

TEST(Progress, PlainLinesHaveNoControlCharacters) {
  Recorder out;
  Screen screen(out.options(false, 0));
  Progress report(screen, with_progress(ProgressStyle::plain));
  report.begin(sample_header());
  play(report, 1, 5);
  report.warning("something");
  report.end(sample_summary(5));
  EXPECT_EQ(out.text.find_first_of("\r\x1b"), std::string::npos) << out.text;
  EXPECT_EQ(test::times(out.text, "loss 0."), 5u + 1 + 0) << out.text;  // five steps and an evaluation
  EXPECT_NE(out.text.find("step  5/20  25 %  loss 0.267"), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("step 5  eval loss 0.750  perplexity 2.00  best so far\n"), std::string::npos);
  EXPECT_NE(out.text.find("step 5  saved checkpoint-5 (0.1 s)\n"), std::string::npos);
  EXPECT_NE(out.text.find("warning: something\n"), std::string::npos);
  EXPECT_NE(out.text.find("done     5 steps in 12 s"), std::string::npos) << out.text;
}

TEST(Progress, LiveLineIsRedrawnInPlaceAtMostTenTimesASecond) {
  Recorder out;
  Screen screen(out.options(true, 80));
  Progress report(screen, with_progress(ProgressStyle::bar));
  report.begin(sample_header());
  const std::size_t before = out.text.size();
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; step <= 19; ++step) report.progress(sample_step(step));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const std::size_t drawn = test::times(out.text.substr(before), "\r");
  EXPECT_GE(drawn, 1u);
  EXPECT_LE(drawn, 1 + std::size_t(took.count() / 0.1));  // one, unless the machine is busy
  EXPECT_EQ(out.text.substr(before).find('\n'), std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  report.progress(sample_step(20));
  EXPECT_EQ(test::times(out.text.substr(before), "\r"), drawn + 1);
  report.evaluation(sample_evaluation(20, 0.5, true));
  // The live line is cleared, the evaluation gets a line, and the live line is drawn again below.
  EXPECT_NE(out.text.find("\r\x1b[Kstep 20  eval loss 0.500  perplexity 2.00  best so far\n\r20/20"),
            std::string::npos)
      << out.text;
  report.end(sample_summary(20));
  EXPECT_NE(out.text.find("\r\x1b[K\n"), std::string::npos) << "the live line goes before the summary";
}

TEST(Progress, LiveLineNeverReachesTheLastColumn) {
  for (const int width : {10, 40, 80, 200}) {
    Recorder out;
    Screen screen(out.options(true, width));
    Progress report(screen, with_progress(ProgressStyle::bar));
    report.begin(sample_header());
    out.text.clear();
    report.progress(sample_step(7));
    ASSERT_EQ(out.text.front(), '\r');
    EXPECT_LT(show::columns(out.text), width) << out.text;
  }
}

TEST(Progress, TheFirstStepIsSeenBeforeItEnds) {
  Recorder out;
  Screen screen(out.options(true, 80));
  Progress report(screen, with_progress(ProgressStyle::bar));
  report.begin(sample_header());
  report.micro_step(1, 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  report.micro_step(5, 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  report.progress(sample_step(1));  // no other thread draws from here on
  EXPECT_NE(out.text.find("\r 0/20  step 1, micro-batch 1/8  "), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("\r 0/20  step 1, micro-batch 5/8  "), std::string::npos) << out.text;
  EXPECT_EQ(out.text.find("step 1, micro-batch", out.text.find("loss")), std::string::npos) << out.text;
}

TEST(Progress, StepsWithoutADifferenceBetweenAnswersAreNamedOnce) {
  Recorder out;
  Screen screen(out.options(false, 0));
  Progress report(screen, with_progress(ProgressStyle::plain));
  report.begin(sample_header());
  for (std::int64_t step = 1; step <= 3; ++step) {
    StepRow row = sample_step(step);
    row.columns = {{"reward", 0}, {"frac_reward_zero_std", step == 1 ? 0.0 : 1.0}};
    report.progress(row);
  }
  report.end(sample_summary(3));
  EXPECT_EQ(test::times(out.text, "nothing is learned from them"), 1u) << out.text;
  EXPECT_NE(out.text.find("step 2: all answers to a prompt got the same reward"), std::string::npos);
  EXPECT_NE(out.text.find("nothing was learned in 2 of 3 steps"), std::string::npos) << out.text;
}

// A terminal that becomes narrower breaks the live line into rows; all of them have to be cleared.
TEST(Screen, ANarrowerTerminalKeepsNoOldPieces) {
  Recorder out;
  int width = 140;
  Screen::Options o = out.options(true, 140);
  o.width = [&] { return width; };
  Screen screen(o);
  screen.live_line([](int columns) { return std::string(static_cast<std::size_t>(columns), 'x'); });
  width = 60;
  out.text.clear();
  screen.line("hello");
  EXPECT_TRUE(out.text.starts_with("\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[Khello\n\r" + std::string(59, 'x')))
      << "139 columns were three rows of 60: " << out.text;
  out.text.clear();
  screen.line("again");
  EXPECT_TRUE(out.text.starts_with("\r\x1b[Kagain\n")) << out.text;
}

// Returns the lines that a terminal shows after `text`. Interprets carriage returns, line feeds, erased lines
// and cursor moves up.
std::vector<std::string> shown(const std::string& text) {
  std::vector<std::string> lines(1);
  std::size_t row = 0;
  bool begins = true;  // the cursor is in the first column
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      begins = true;
    } else if (text[i] == '\n') {
      if (++row == lines.size()) lines.emplace_back();
      begins = true;
    } else if (text[i] == '\x1b') {
      const std::size_t end = text.find_first_of("AK", i);
      if (text[end] == 'A') row -= std::stoul("0" + text.substr(i + 2, end - i - 2)) + (end == i + 2);
      if (text[end] == 'K' && begins) lines[row].clear();
      i = end;
    } else {
      if (begins) lines[row].clear();
      begins = false;
      lines[row] += text[i];
    }
  }
  return lines;
}

TEST(Progress, FullDrawsTheCourseOfTheLossAndErasesIt) {
  for (const int height : {24, 10}) {
    Recorder out;
    Screen::Options o = out.options(true, 80);
    o.height = [height] { return height; };
    Screen screen(o);
    Progress report(screen, with_progress(ProgressStyle::full));
    report.begin(sample_header());
    const std::size_t before = shown(out.text).size();
    for (std::int64_t step = 1; step <= 10; ++step) report.progress(sample_step(step));
    report.evaluation(sample_evaluation(10, 0.5, true));
    const std::vector<std::string> lines = shown(out.text);
    EXPECT_EQ(lines.size(), before + 1 + (height == 24 ? 8 : 0)) << out.text;
    EXPECT_TRUE(lines[before - 1].starts_with("step 10  eval loss 0.500")) << lines[before - 1];
    EXPECT_TRUE(lines.back().starts_with("10/20")) << lines.back();
    EXPECT_EQ(std::count(lines[before].begin(), lines[before].end(), '*') > 0, height == 24) << lines[before];
    report.end(sample_summary(20));
    for (const std::string& line : shown(out.text)) EXPECT_EQ(line.find('*'), std::string::npos) << line;
  }
  Recorder out;
  Screen screen(out.options(false, 0));  // not a terminal but a log
  Progress report(screen, with_progress(ProgressStyle::full));
  report.begin(sample_header());
  play(report, 1, 5);
  report.end(sample_summary(5));
  EXPECT_EQ(out.text.find_first_of("\r\x1b*"), std::string::npos) << out.text;
}

TEST(LossCurve, FallsFromItsFirstLineToItsLast) {
  std::vector<double> losses;
  for (int i = 0; i < 300; ++i) losses.push_back(3 - i * 0.01);
  losses[7] = std::numeric_limits<double>::quiet_NaN();  // a skipped step
  for (const bool utf8 : {true, false}) {
    const auto lines = loss_curve(losses, 60, 5, utf8);
    ASSERT_EQ(lines.size(), 5u);
    for (const std::string& line : lines) EXPECT_LE(show::columns(line), 60) << line;
    EXPECT_LT(lines[0].find("2.9"), 3u) << lines[0];
    if (utf8) continue;
    EXPECT_EQ(lines[0][7], '*') << lines[0];
    EXPECT_TRUE(lines[4].ends_with('*')) << lines[4];
    EXPECT_FALSE(lines[0].ends_with('*')) << lines[0];
  }
  EXPECT_TRUE(loss_curve({1}, 60, 5, true).empty());
  EXPECT_TRUE(loss_curve(losses, 5, 5, true).empty());
  EXPECT_TRUE(loss_curve(losses, 60, 1, true).empty());
}

TEST(Progress, NoneAndLogLevelAreSilentExceptForWarnings) {
  for (const LoggingConfig& config :
       {with_progress(ProgressStyle::none), with_progress(ProgressStyle::plain, LogLevel::warning)}) {
    Recorder out;
    Screen screen(out.options(false, 0));
    Progress report(screen, config);
    report.begin(sample_header());
    play(report, 1, 5);
    report.note("nothing to worry about");
    report.warning("the disk is nearly full");
    report.end(sample_summary(5));
    EXPECT_EQ(out.text, "warning: the disk is nearly full\n");
  }
  Recorder out;
  Screen screen(out.options(false, 0));
  Progress report(screen, with_progress(ProgressStyle::plain, LogLevel::error));
  report.warning("the disk is nearly full");
  EXPECT_EQ(out.text, "");
}

TEST(Screen, LongLinesAreWrappedAtWordsBehindTheLabel) {
  Recorder out;
  Screen screen(out.options(true, 30));
  screen.line("data     one two three four five six seven eight", 9);
  EXPECT_EQ(out.text, "data     one two three four\n         five six seven eight\n");
  out.text.clear();
  screen.line("averyveryverylongwordwithoutanyspaceatall", 9);
  EXPECT_EQ(out.text, "averyveryverylongwordwithoutanyspaceatall\n");
}

TEST(Screen, ColourOnlyWhereAskedFor) {
  Recorder out;
  Screen::Options o = out.options(false, 0);
  EXPECT_EQ(Screen(o).bold("x"), "x");
  o.colour = true;
  EXPECT_EQ(Screen(o).bold("x"), "\x1b[1mx\x1b[0m");
}

TEST(Working, ShowsNothingInTheFirstHalfSecond) {
  Recorder out;
  Screen screen(out.options(true, 80));
  {
    Working working(screen, "reading weights", "bytes");
    working(1 << 20, 1 << 21);
    EXPECT_EQ(out.text, "");
    std::this_thread::sleep_for(std::chrono::milliseconds(510));
    working(1 << 20, 1 << 21);
    EXPECT_NE(out.text.find("reading weights  1.00 of 2.00 MiB  50 %  "), std::string::npos) << out.text;
    EXPECT_NE(out.text.find(" s left"), std::string::npos) << out.text;  // the number depends on the machine
  }
  EXPECT_TRUE(out.text.ends_with("\r\x1b[K"));
}

}  // namespace
}  // namespace ft
