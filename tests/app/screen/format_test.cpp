// Numbers and text widths for the screen.
#include "app/screen/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ft::show {
namespace {

TEST(Format, Count) {
  EXPECT_EQ(count(0), "0");
  EXPECT_EQ(count(999), "999");
  EXPECT_EQ(count(1000), "1,000");
  EXPECT_EQ(count(1234567), "1,234,567");
  EXPECT_EQ(count(-123456), "-123,456");
  EXPECT_EQ(count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(plural(1, "sample"), "1 sample");
  EXPECT_EQ(plural(7473, "sample"), "7,473 samples");
}

TEST(Format, Quantity) {
  EXPECT_EQ(quantity(6.74e9), "6.74 B");
  EXPECT_EQ(quantity(39976960), "40.0 M");
  EXPECT_EQ(quantity(1.61e6), "1.61 M");
  EXPECT_EQ(quantity(851968), "851,968");
  EXPECT_EQ(quantity(999.9e6), "1.00 B");
  EXPECT_EQ(quantity(1.2e12), "1.20 T");
}

TEST(Format, Digits) {
  EXPECT_EQ(digits(0.8712), "0.871");
  EXPECT_EQ(digits(12.34), "12.3");
  EXPECT_EQ(digits(1434.4), "1,434");
  EXPECT_EQ(digits(999.6), "1,000");
  EXPECT_EQ(digits(9.996), "10.0");
  EXPECT_EQ(digits(0), "0");
  EXPECT_EQ(digits(-0.0), "0");
  EXPECT_EQ(digits(3.14e-7), "3.14e-07");
  EXPECT_EQ(digits(NAN), "nan");
  EXPECT_EQ(digits(-INFINITY), "-inf");
  EXPECT_EQ(fixed(-0.001, 1), "0.0");
  EXPECT_EQ(fixed(12345.678, 2), "12,345.68");
}

TEST(Format, LossAndRate) {
  EXPECT_EQ(loss(0.87149), "0.871");
  EXPECT_EQ(loss(1.412), "1.412");
  EXPECT_EQ(loss(9.99951), "10.00");
  EXPECT_EQ(loss(10.8312), "10.83");
  EXPECT_EQ(loss(0.03124), "0.0312");
  EXPECT_EQ(loss(0.000312), "3.1e-04");
  EXPECT_EQ(loss(0), "0");
  EXPECT_EQ(rate(1.9e-4), "1.9e-04");
  EXPECT_EQ(rate(0), "0");
}

TEST(Format, Percent) {
  EXPECT_EQ(percent(40.0, 6740), "0.59 %");
  EXPECT_EQ(percent(12, 75), "16 %");
  EXPECT_EQ(percent(99.1, 100), "99.1 %");
  EXPECT_EQ(percent(1, 1), "100 %");
  EXPECT_EQ(percent(0, 5), "0 %");
  EXPECT_EQ(percent(1, 0), "-");
}

TEST(Format, SizesAndSpeeds) {
  EXPECT_EQ(file_size(80'000'000), "80.0 MB");
  EXPECT_EQ(file_size(512), "512 B");
  EXPECT_EQ(file_size(13'476'831'232), "13.5 GB");
  EXPECT_EQ(speed(19812), "19.8k tok/s");
  EXPECT_EQ(speed(415.2), "415 tok/s");
  EXPECT_EQ(speed(1.25e6), "1.25M tok/s");
}

TEST(Format, Duration) {
  EXPECT_EQ(duration(0.0123), "12 ms");
  EXPECT_EQ(duration(0.9), "0.9 s");
  EXPECT_EQ(duration(41.2), "41 s");
  EXPECT_EQ(duration(192), "3m12s");
  EXPECT_EQ(duration(249.4), "4m09s");
  EXPECT_EQ(duration(3599.6), "1h00m");
  EXPECT_EQ(duration(3840), "1h04m");
  EXPECT_EQ(duration(183600), "2d03h");
  EXPECT_EQ(duration(NAN), "-");
  EXPECT_EQ(duration(-3), "0 ms");
}

TEST(Format, MemoryInOneUnit) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  EXPECT_EQ(memory(kGiB * 45 / 2), "22.5 GiB");
  EXPECT_EQ(memory(kGiB), "1.00 GiB");
  EXPECT_EQ(memory(5'000'000), "4.77 MiB");
  const MemoryUnit unit = memory_unit(kGiB * 45 / 2);
  EXPECT_EQ(memory(kGiB / 3, unit), "0.3");
}

TEST(Format, PathsAreRelativeIfThatIsShorter) {
  const std::filesystem::path here = std::filesystem::current_path();
  EXPECT_EQ(path(here / "outputs" / "run"), "outputs/run");
  EXPECT_EQ(path("/x"), "/x");
  EXPECT_EQ(path("../models/a"), "../models/a");
  EXPECT_EQ(path(here), ".");
}

TEST(Format, ColumnsAndFit) {
  EXPECT_EQ(columns("abc"), 3);
  EXPECT_EQ(columns("\x1b[1mabc\x1b[0m"), 3);
  EXPECT_EQ(columns("n\xc3\xa4h"), 3);
  EXPECT_EQ(columns("\xe6\xa8\xa1\xe5\x9e\x8b"), 4);  // two wide characters
  EXPECT_EQ(columns("e\xcc\x81"), 1);                 // a combining accent
  EXPECT_EQ(fit("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(fit("abcdefgh", 6), "abc...");
  EXPECT_EQ(fit("abcdefgh", 2), "ab");
  EXPECT_EQ(fit("\x1b[1mabcdefgh\x1b[0m", 6), "\x1b[1mabc...\x1b[0m");
  EXPECT_EQ(fit("\xe6\xa8\xa1\xe5\x9e\x8b\xe6\xa8\xa1", 5), "\xe6\xa8\xa1...");
  EXPECT_EQ(columns("\xff\xc3"), 2);  // ill-formed bytes end somewhere
}

}  // namespace
}  // namespace ft::show
