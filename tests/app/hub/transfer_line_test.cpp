// The progress of a transfer as people see it.
#include "app/hub/transfer_line.h"

#include <gtest/gtest.h>

#include "app/hub/pull.h"
#include "app/screen/format.h"

namespace ft::hub {
namespace {

using std::chrono::seconds;

TEST(TransferLine, ShowsShareRateAndTimeLeft) {
  const auto start = TransferLine::Clock::now();
  TransferLine line("org/name", 13'500'000'000, 500'000'000, start);
  EXPECT_EQ(line.text(0, false), "org/name  500 MB of 13.5 GB  3.0 %");
  line.update(1'500'000'000, 1'000'000'000, start + seconds(10));
  EXPECT_EQ(line.text(0, false), "org/name  1.50 GB of 13.5 GB  11 %  100 MB/s  2m00s left");
  EXPECT_EQ(line.text(80, false),
            "org/name  ==....................  1.50 GB of 13.5 GB  11 %  100 MB/s  2m00s left");
  EXPECT_LE(show::columns(line.text(80, true)), 80);
}

TEST(TransferLine, TheRateIsThatOfTheLastSeconds) {
  const auto start = TransferLine::Clock::now();
  TransferLine line("a", 1'000'000'000, 0, start);
  for (int second = 1; second <= 100; ++second)
    line.update(second * 1'000'000, second * 1'000'000, start + seconds(second));
  for (int second = 101; second <= 110; ++second)
    line.update(second * 5'000'000, 100'000'000 + (second - 100) * 5'000'000, start + seconds(second));
  EXPECT_NE(line.text(0, false).find("  5.00 MB/s  "), std::string::npos) << line.text(0, false);
}

TEST(TransferLine, ALogGetsALineEveryTenSeconds) {
  const auto start = TransferLine::Clock::now();
  TransferLine line("a", 100, 0, start);
  int lines = 0;
  for (int tenth = 1; tenth <= 350; ++tenth) {
    line.update(0, 0, start + std::chrono::milliseconds(100 * tenth));
    lines += line.due() ? 1 : 0;
  }
  EXPECT_EQ(lines, 3);
}

TEST(TransferLine, TheEndNamesTheFolder) {
  EXPECT_EQ(end_line("a/b", {.folder = "/hub/x", .files = 1, .bytes = 5, .received = 5, .seconds = 161}),
            "pulled   a/b, 1 file, 5 B in 2m41s -> /hub/x");
  EXPECT_EQ(end_line("a/b", {.folder = "/hub/x", .files = 2, .bytes = 5000, .received = 0, .seconds = 1}),
            "complete a/b, 2 files, 5.00 kB -> /hub/x");
}

}  // namespace
}  // namespace ft::hub
