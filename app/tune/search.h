// Which settings to try next, and when enough were tried. Nothing here runs or times anything.
#pragma once
#include <optional>

#include "app/tune/cost_model.h"

namespace ft {

class TuneSearch {
 public:
  // At most `trials` of the points are tried; every one: also those that are not likely to be the fastest.
  TuneSearch(std::vector<Traits> points, std::size_t trials, bool every_one = false);

  // What a trial of a point found: seconds for the same work, 0: it failed. noise: relative standard error.
  void tried(std::size_t point, double seconds, double noise);

  // The untried point that may be the fastest: the lowest prediction less its deviation. Nothing when the
  // trials are used up, or none is likely to be faster than the best by half a percent.
  std::optional<std::size_t> next() const;

  std::optional<std::size_t> best() const;  // the fastest that was tried
  // Each point's seconds as measured, else as predicted; NaN: it failed, or nothing is known.
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
