// A learning rate that depends on the run's evaluations.
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/rules.h"

namespace ft {
namespace schedules {

enum class Better : std::uint8_t { lower, higher };
constexpr auto words(Better) { return to_words<Better>({{Better::lower, "min"}, {Better::higher, "max"}}); }

enum class Threshold : std::uint8_t { relative, absolute };
constexpr auto words(Threshold) {
  return to_words<Threshold>({{Threshold::relative, "rel"}, {Threshold::absolute, "abs"}});
}

}  // namespace schedules

class EvaluatedRate {
 public:
  // All that such a rate knows; a checkpoint holds it.
  struct State {
    double rate = 0;
    std::optional<double> best;             // empty: no evaluation yet
    std::int64_t bad = 0, good = 0;         // evaluations in a row without and with progress
    std::int64_t cooldown = 0, warmup = 0;  // evaluations that will not count
    std::int64_t falls_left = 0;            // before it starts anew
    std::vector<double> window;             // the last figures, if they are averaged
    double window_sum = 0;
    bool operator==(const State&) const = default;
  };

  virtual ~EvaluatedRate() = default;
  virtual void evaluated(double figure) = 0;
  double rate() const { return s_.rate; }
  const State& state() const { return s_; }
  void restore(const State& s) { s_ = s; }

 protected:
  EvaluatedRate(double rate, bool higher) : higher_(higher) { s_.rate = rate; }
  // True if a figure is progress, and then it is the best so far.
  bool improves(double figure, schedules::Threshold mode, double threshold) {
    if (!std::isfinite(figure) || (s_.best && !better(figure, *s_.best, mode, threshold))) return false;
    s_.best = figure;
    return true;
  }

  State s_;

 private:
  bool better(double figure, double best, schedules::Threshold mode, double threshold) const {
    const bool relative = mode == schedules::Threshold::relative;
    if (higher_) return figure > (relative ? best * (threshold + 1) : best + threshold);
    return figure < (relative ? best * (1 - threshold) : best - threshold);
  }

  bool higher_;
};

}  // namespace ft
