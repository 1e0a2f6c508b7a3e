// ft sweep --find learning_rate: successive halving in two rounds. First, seven rates around the
// configuration's, a cube root of ten apart, train for a sixteenth of the run's steps. Then two rates of the
// same grid, where the lowest loss is then expected, train for a half. Each run uses the complete schedule
// for its number of steps, so that rates are compared as the run would use them. Together they cost at most
// one and a half runs.
//
// The longer a run, the lower its best rate, about as the -0.32nd power of its length (Bjorck et al.,
// "Scaling optimal LR across token horizons", 2024). That is 0.87 of a step of the grid from a sixteenth to a
// half, and less than a third of a step from a half to the complete run, so the better of the last two rates
// is the result.
//
// If several rates have equal first losses, hardly anything has been learned yet, as by new adapters in a few
// steps. The losses then tell only which rates are too high. In that case three rates around the highest of
// the equal ones train for a third.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/config/args.h"
#include "app/sweep/table.h"
#include "engine/core/error.h"

namespace ft {

// The first round: the share of the run's steps; the number of rates; and the number of rates within a
// thousandth of the lowest loss that counts as equal losses.
inline constexpr double kFirstShare = 1.0 / 16;
inline constexpr int kFirstRates = 7, kLevelRates = 3;

// Returns a rate of the grid: `rate` times 10^(step / 3), rounded to two digits.
double rate_at(double rate, int step);

// A rate of the grid and its held-out loss; NaN if the loss is not finite.
struct TriedRate {
  int step;
  double loss;
};
// Returns the rate with the lowest loss; of equal losses the lower rate. Throws UserError (numeric) if no
// loss is finite.
TriedRate best_of(const std::vector<TriedRate>& tried);
// Returns the step below or above the tried ones if the given rate is the lowest or highest of them, else
// nothing.
std::optional<int> step_beyond(const std::vector<TriedRate>& tried, const TriedRate&);
// The rates of the last round: neighbours on the grid from `lowest` on. `share`: their part of the run's
// steps.
struct LastRound {
  int lowest, rates;
  double share;
};
// Chooses the last round: around the lowest point of the parabola through the best rate and its neighbours,
// moved down for the longer run. With equal losses, around the highest of their rates.
LastRound last_round(const std::vector<TriedRate>& first);

// Draws the held-out loss over the rate, a line for each round. The values of a row are rate and steps.
std::string rate_svg(const std::vector<SweepRow>& rows, const std::string& title);

Exit find_rate(const ConfigArgs& args);

}  // namespace ft
