#include "app/plan/last_below_zero.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

// Counts how often the search asks a function of whole numbers.
struct Asked {
  std::int64_t answer = 0;
  int times = 0;
};
template <class F>
Asked ask(std::int64_t most, const F& f) {
  Asked a;
  a.answer = last_below_zero(most, [&](std::int64_t n) {
    EXPECT_TRUE(1 <= n && n <= most) << n;
    ++a.times;
    return f(n);
  });
  return a;
}

TEST(LastBelowZero, IsFoundWhereverItIs) {
  for (const std::int64_t most : {0, 1, 2, 7, 8, 9, 46, 100})
    for (std::int64_t last = 0; last <= most; ++last) {
      const auto line = [last](std::int64_t n) { return 3 * (n - last) - 1; };
      const auto jump = [last](std::int64_t n) {
        return n <= last ? std::int64_t{-1} : std::int64_t{1} << 50;
      };
      const auto curve = [last](std::int64_t n) { return n * n * n - last * last * last - 1; };
      EXPECT_EQ(ask(most, line).answer, last) << most;
      EXPECT_EQ(ask(most, jump).answer, last) << most;
      EXPECT_EQ(ask(most, curve).answer, last) << most;
    }
}

// The memory of a plan is a line with a bend or two.
TEST(LastBelowZero, TakesFewSteps) {
  constexpr std::int64_t kMost = 1 << 14;
  for (const std::int64_t last : {1, 63, 64, 700, 5000, 13813, 16383}) {
    const auto bent = [last](std::int64_t n) {
      const auto f = [](std::int64_t x) { return 1000 * x + 700 * std::max<std::int64_t>(0, x - 300); };
      return f(n) - f(last) - 1;
    };
    const Asked a = ask(kMost, bent);
    EXPECT_EQ(a.answer, last);
    EXPECT_LE(a.times, 12) << last;
  }
  EXPECT_LE(ask(kMost, [](std::int64_t n) { return n - kMost - 1; }).times, 8);
  for (const std::int64_t last : {5, 777, 12345})  // the worst case
    EXPECT_LE(ask(kMost, [&](std::int64_t n) { return n <= last ? -1.0 : 1e15; }).times, 48);
}

}  // namespace
}  // namespace ft
