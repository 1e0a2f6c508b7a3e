// Chooses the settings to try next, and decides when enough were tried. Does not run or time anything.
#pragma once
#include <optional>

#include "app/tune/cost_model.h"

namespace ft {

class TuneSearch {
 public:
  // Tries at most `trials` of the points; with `every_one` also points that are unlikely to be the fastest.
  TuneSearch(std::vector<Traits> points, std::size_t trials, bool every_one = false);

  // Notes the result of a trial: seconds for the same work, 0: it failed; `noise`: relative standard error.
  void tried(std::size_t point, double seconds, double noise);

  // Returns the untried point that may be the fastest: the lowest prediction minus two deviations. Returns
  // nothing if all trials are used, or if no point is likely to be faster than the best by half a percent.
  std::optional<std::size_t> next() const;

  std::optional<std::size_t> best() const;  // the fastest tried point
  // Returns each point's measured seconds, else the predicted ones; NaN: it failed, or nothing is known.
  std::vector<double> seconds() const;
  std::size_t trials() const { return tried_; }

 private:
  std::optional<CostModel> model() const;

  struct Known {
    bool tried = false;
    double seconds = 0, noise = 0;
  };
  std::vector<Traits> points_;
  std::vector<Known> known_;
  std::size_t most_, tried_ = 0;
  bool every_one_;
};

}  // namespace ft
