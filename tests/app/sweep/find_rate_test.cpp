// ft sweep --find learning_rate: the rates that it tries, the rates that go on, and the picture.
#include "app/sweep/find_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

using Tried = std::vector<TriedRate>;

TEST(FindRate, NeighbouringRatesDifferByTheCubeRootOfTen) {
  const double around[] = {2e-5, 4.3e-5, 9.3e-5, 2e-4, 4.3e-4, 9.3e-4, 2e-3, 4.3e-3};
  for (int step = -3; step <= 4; ++step) EXPECT_EQ(rate_at(2e-4, step), around[step + 3]);
}

TEST(FindRate, TheBestHasTheLowestFiniteLoss) {
  EXPECT_EQ(best_of({{-1, 0.5}, {0, NAN}, {1, 0.2}, {2, INFINITY}}).step, 1);
  EXPECT_EQ(best_of({{1, 0.3}, {0, 0.3}}).step, 0) << "of equals the lower rate";
  EXPECT_THROW(best_of({{0, NAN}}), UserError);
}

TEST(FindRate, TheEdgeIsFollowedByOneMore) {
  const auto beyond = [](int best) { return step_beyond({{-1, 0}, {0, 0}, {1, 0}}, {best, 0}); };
  EXPECT_EQ(beyond(0), std::nullopt);
  EXPECT_EQ(beyond(1), 2);
  EXPECT_EQ(beyond(-1), -2);
}

// A run over half of the steps has its best rate 0.87 grid steps below the best rate of a run over a
// sixteenth.
TEST(FindRate, TheLastRatesAreAroundTheLowestPoint) {
  const auto lowest = [](const Tried& first) { return last_round(first).lowest; };
  EXPECT_EQ(lowest({{-1, 2}, {0, 1}, {1, 2}}), -1);
  EXPECT_EQ(lowest({{-1, 1.1}, {0, 1}, {1, 2}}), -2) << "the lowest point is left of the best";
  EXPECT_EQ(lowest({{-1, 2}, {0, 1}, {1, 1.1}}), -1);
  EXPECT_EQ(lowest({{-1, 2}, {0, 1}, {1, 1}}), -1) << "half a step is the farthest";
  EXPECT_EQ(lowest({{-1, NAN}, {0, 1}, {1, 2}}), -1);
  EXPECT_EQ(lowest({{2, 1}}), 1);
}

TEST(FindRate, OfLevelLossesTheLastRatesAreAroundTheHighest) {
  const auto expect = [](const Tried& first, int lowest, int rates) {
    const LastRound round = last_round(first);
    EXPECT_EQ(round.lowest, lowest);
    EXPECT_EQ(round.rates, rates);
  };
  expect({{-1, 1.0005}, {0, 1}, {1, 1.0008}, {2, 1.1}, {3, NAN}}, 0, 3);
  expect({{-1, 1.002}, {0, 1}, {1, 1.0008}, {2, 1.1}}, -1, 2);
}

// Losses are held-out losses after a sixteenth of the steps, of runs of configs/demo, of configs/translation
// and of an adapter on bench/gsm8k's model. `best` is the best rate of the full runs.
TEST(FindRate, BestRatesOfCompleteRunsAreAmongTheLast) {
  const auto expect = [](double around, const Tried& first, double best) {
    const LastRound last = last_round(first);
    std::vector<double> rates;
    for (int i = 0; i < last.rates; ++i) rates.push_back(rate_at(around, last.lowest + i));
    EXPECT_TRUE(std::ranges::count(rates, best) == 1) << best;
  };
  expect(2e-3, {{-1, 1.350}, {0, 1.272}, {1, 1.266}, {2, 1.425}}, 0.00093);
  expect(1e-3, {{0, 2.159}, {1, 2.045}, {2, 2.108}}, 0.001);
  expect(2e-3, {{-3, 2.8683}, {-2, 2.8677}, {-1, 2.8670}, {0, 2.8672}, {1, 2.8725}, {2, 2.92}}, 0.0043);
}

TEST(FindRate, TheRoundsCostLessThanOneAndAHalfRuns) {
  for (const Tried& first : {Tried{{0, 1}}, Tried{{-1, 1}, {0, 1}, {1, 1}}}) {
    const LastRound last = last_round(first);
    EXPECT_LE((kFirstRates + 1) * kFirstShare + last.rates * last.share, 1.5);
  }
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
