// ft sweep --find learning_rate: which rates are tried, which go on, and the picture.
#include "app/sweep/find_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ft {
namespace {

using Rates = std::vector<double>;

TEST(FindRate, RatesAreACubeRootOfTenApart) {
  EXPECT_EQ(rates_around(2e-4, 7), (Rates{2e-5, 4.3e-5, 9.3e-5, 2e-4, 4.3e-4, 9.3e-4, 2e-3}));
  EXPECT_EQ(rates_around(1, 3), (Rates{0.46, 1, 2.2}));
}

TEST(FindRate, TheEdgeIsFollowedByOneMore) {
  EXPECT_EQ(rate_beyond({1e-4, 2e-4, 4e-4}, 2e-4), 0);
  EXPECT_EQ(rate_beyond({1e-4, 2e-4, 4e-4}, 4e-4), 8.6e-4);
  EXPECT_EQ(rate_beyond({1e-4, 2e-4, 4e-4}, 1e-4), 4.6e-5);
}

TEST(FindRate, WholeRunsWantLowerRates) {
  EXPECT_EQ(rate_for_whole(2e-3, 1), 2e-3);
  EXPECT_EQ(rate_for_whole(2e-3, 0.25), 1.3e-3);
}

TEST(FindRate, TheBestGoOnAndALossThatIsNotANumberIsTheWorst) {
  EXPECT_EQ(best_rates({1, 2, 3, 4}, {0.5, 0.2, NAN, 0.1}, 2), (Rates{2, 4}));
  EXPECT_EQ(best_rates({1, 2, 3}, {NAN, 0.2, NAN}, 2), (Rates{1, 2}));
  EXPECT_EQ(best_rates({1, 2}, {0.3, 0.3}, 1), (Rates{1})) << "of equals the lower rate";
}

TEST(FindRate, TheRoundsCostLessThanOneAndAHalfRuns) {
  double cost = 0;
  for (const FindRound& round : kFindRounds) cost += static_cast<double>(round.rates) * round.share;
  EXPECT_LE(cost + kFindRounds[0].share, 1.5) << "with one more rate beyond the edge";
}

TEST(FindRate, ThePictureHasALineForEachRound) {
  std::vector<SweepRow> rows;
  const auto add = [&](const char* rate, const char* steps, double loss) {
    rows.push_back({.name = "", .values = {rate, steps}, .eval_loss = loss, .result = "done"});
  };
  add("0.0001", "10", 1.0);
  EXPECT_EQ(rate_svg(rows, "t"), "") << "one rate is no axis";
  add("0.0002", "10", 0.9);
  add("0.004", "10", 50);
  add("0.0002", "20", 0.8);
  const std::string svg = rate_svg(rows, "a < b");
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("10 steps"), std::string::npos);
  EXPECT_NE(svg.find("20 steps"), std::string::npos);
  std::size_t dots = 0;
  for (std::size_t at = 0; (at = svg.find("<circle class=\"d", at)) != svg.npos; ++at) ++dots;
  EXPECT_EQ(dots, 3u) << "the loss of 50 is off the page";
}

}  // namespace
}  // namespace ft
