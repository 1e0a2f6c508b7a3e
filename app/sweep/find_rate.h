// ft sweep --find learning_rate, successive halving in two rounds: seven rates, a cube root of ten apart
// around the configuration's, train on a sixteenth of the run's steps; two of the same grid, where the lowest
// loss is then expected, on a half. Each run has the whole schedule, on its share of the steps, so that rates
// are compared where the run would use them. Together they cost less than one and a half runs.
//
// The longer a run, the lower its best rate, about as the -0.32nd power of its length (Bjorck et al.,
// "Scaling optimal LR across token horizons", 2024). That is 0.87 of a step of the grid from a sixteenth to a
// half, and less than a third of one from there to the whole run, so the better one of the last two is the
// result.
//
// Where the first losses are level over several rates, hardly anything has been learned yet, as by new
// adapters in a few steps: all that they tell is which rates are too high. Then three rates around the
// highest of the level ones train on a third.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/config/args.h"
#include "app/sweep/table.h"
#include "engine/core/error.h"

namespace ft {

// Of the first round: the share of the run's steps, how many rates, and how many within a thousandth of the
// lowest loss it takes to call them level.
inline constexpr double kFirstShare = 1.0 / 16;
inline constexpr int kFirstRates = 7, kLevelRates = 3;

// The grid around a rate: `rate` times 10^(step / 3), of two digits.
double rate_at(double rate, int step);

// A rate of the grid and its held-out loss, NaN where that is not finite.
struct TriedRate {
  int step;
  double loss;
};
// The one of the lowest loss, the lower rate of equals. UserError where no loss is finite.
TriedRate best_of(const std::vector<TriedRate>& tried);
// The step beyond one of those that were tried, where it is the lowest or the highest; none: it is between
// others.
std::optional<int> step_beyond(const std::vector<TriedRate>& tried, const TriedRate&);
// The last round: neighbours on the grid from `lowest` on, each on a share of the run's steps.
struct LastRound {
  int lowest, rates;
  double share;
};
// Around the lowest point of the parabola through the best and its neighbours, lowered for the longer run; of
// level losses around the highest rate.
LastRound last_round(const std::vector<TriedRate>& first);

// Held-out loss over the rate, a line for each round. Rows' values are rate and steps.
std::string rate_svg(const std::vector<SweepRow>& rows, const std::string& title);

Exit find_rate(const ConfigArgs& args);

}  // namespace ft
