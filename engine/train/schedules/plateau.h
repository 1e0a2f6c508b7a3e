// reduce_lr_on_plateau: torch's ReduceLROnPlateau, stepped by the evaluations as transformers' Trainer does.
// The rate falls when more than `patience` evaluations in a row were no better than the best.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "engine/core/rules.h"
#include "engine/train/schedules/run.h"

namespace ft {
namespace schedules {

enum class Better : std::uint8_t { lower, higher };
constexpr auto words(Better) { return to_words<Better>({{Better::lower, "min"}, {Better::higher, "max"}}); }

enum class Threshold : std::uint8_t { relative, absolute };
constexpr auto words(Threshold) {
  return to_words<Threshold>({{Threshold::relative, "rel"}, {Threshold::absolute, "abs"}});
}

struct ReduceLrOnPlateau {
  std::optional<Better> mode;  // empty: as evaluation.greater_is_better says
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  Threshold threshold_mode = Threshold::relative;
  std::int64_t cooldown = 0;
  double min_lr = 0, eps = 1e-8;

  void fields(auto& f) {
    f("mode", mode, "Which figure is better; null: as evaluation.greater_is_better says.");
    f("factor", factor, "By which the rate falls.", above(0), below(1));
    f("patience", patience, "Evaluations without progress that do nothing.", at_least(0));
    f("threshold", threshold, "Less progress than this is none.", at_least(0));
    f("threshold_mode", threshold_mode, "Progress as a fraction of the best figure, or as it is.");
    f("cooldown", cooldown, "Evaluations that do not count after the rate has fallen.", at_least(0));
    f("min_lr", min_lr, "The lowest rate.", at_least(0));
    f("eps", eps, "A fall by less than this does not happen.", at_least(0));
  }
  double rate(std::int64_t, const Run& run) const { return run.rate; }  // without any evaluation
};

}  // namespace schedules

class Plateau {
 public:
  // All that it knows; a checkpoint holds it.
  struct State {
    double rate = 0;
    std::optional<double> best;  // empty: no evaluation yet
    std::int64_t bad = 0;        // evaluations in a row without progress
    std::int64_t cooldown = 0;   // evaluations that will not count
    bool operator==(const State&) const = default;
  };

  Plateau(const schedules::ReduceLrOnPlateau& c, double rate, bool greater_is_better)
      : c_(c), higher_(c.mode ? *c.mode == schedules::Better::higher : greater_is_better) {
    s_.rate = rate;
  }
  void restore(const State& s) { s_ = s; }
  const State& state() const { return s_; }
  double rate() const { return s_.rate; }

  void evaluated(double figure) {
    const bool progress = std::isfinite(figure) && (!s_.best || better(figure, *s_.best));
    if (progress) s_.best = figure;
    s_.bad = progress ? 0 : s_.bad + 1;
    if (s_.cooldown > 0) {
      --s_.cooldown;
      s_.bad = 0;
    }
    if (s_.bad <= c_.patience) return;
    s_.cooldown = c_.cooldown;
    s_.bad = 0;
    const double lower = std::max(s_.rate * c_.factor, c_.min_lr);
    if (s_.rate - lower > c_.eps) s_.rate = lower;
  }

 private:
  bool better(double figure, double best) const {
    const bool relative = c_.threshold_mode == schedules::Threshold::relative;
    if (higher_) return figure > (relative ? best * (c_.threshold + 1) : best + c_.threshold);
    return figure < (relative ? best * (1 - c_.threshold) : best - c_.threshold);
  }

  schedules::ReduceLrOnPlateau c_;
  bool higher_;
  State s_;
};

}  // namespace ft
