// ft sweep --find learning_rate: successive halving. Seven rates, a cube root of ten apart around the
// configuration's, train on a sixteenth of the run's steps; the four best of them on an eighth; the two best
// of those on a quarter. Each run has the whole schedule, on its share of the steps, so that rates are
// compared where the run would use them. Together they cost less than one and a half runs. The longer a run,
// the lower its best rate, about as the -0.32nd power of its length (Bjorck et al., "Scaling optimal LR
// across token horizons", 2024): the best of the last round is lowered by that to the rate that is advised.
#pragma once
#include <string>
#include <vector>

#include "app/config/args.h"
#include "app/sweep/table.h"
#include "engine/core/error.h"

namespace ft {

// What is trained in a round: how many rates, each on this share of the run's steps.
struct FindRound {
  std::size_t rates;
  double share;
};
inline constexpr FindRound kFindRounds[] = {{7, 1.0 / 16}, {4, 1.0 / 8}, {2, 1.0 / 4}};

// Rates around one, the lowest first, of two digits.
std::vector<double> rates_around(double rate, std::size_t count);
// What is best for the whole run, when `best` is for this share of its steps. Two digits.
double rate_for_whole(double best, double share);
// The rate beyond the best, where that is the lowest or the highest that was tried; 0: it is between others.
double rate_beyond(const std::vector<double>& rates, double best);
// The `count` rates of the lowest losses, lowest rate first; losses that are NaN come last.
std::vector<double> best_rates(std::vector<double> rates, std::vector<double> losses, std::size_t count);

// Held-out loss over the rate, a line for each round. Rows' values are rate and steps.
std::string rate_svg(const std::vector<SweepRow>& rows, const std::string& title);

Exit find_rate(const ConfigArgs& args);

}  // namespace ft
