// The parts of an optimizer step. Code that runs a part announces it (`turn_to`, `during`). Tracers read the
// current part, and on request the seconds of each are added up.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/words.h"
#include "engine/ops/stamps.h"

namespace ft {

enum class Phase : std::uint8_t { other, data, forward, recompute, backward, reduce, step, save };
constexpr auto words(Phase) {
  using enum Phase;
  return to_words<Phase>({{other, "other"},
                          {data, "data"},
                          {forward, "forward"},
                          {recompute, "recompute"},  // forward once more, within a backward pass
                          {backward, "backward"},
                          {reduce, "reduce"},
                          {step, "step"},
                          {save, "save"}});
}

class Phases {
 public:
  using Seconds = std::array<double, words(Phase{}).size()>;

  Phase now() const { return now_; }
  // Returns the previous phase.
  Phase turn_to(Phase next) {
    if (next != now_) {
      if (stamps_) note();
      if (leaving_) leaving_(now_);
    }
    return std::exchange(now_, next);
  }
  // Measures times of the device's work from now on.
  void measure(std::unique_ptr<Stamps> stamps) {
    if (stamps_) return;
    stamps_ = std::move(stamps);
    stamps_->mark();
  }
  // Calls leaving(phase) at each change of phase from now on.
  void watch(std::function<void(Phase)> leaving) { leaving_ = std::move(leaving); }
  // Waits for the device's work, and returns the seconds so far; all 0 if nothing is measured.
  Seconds seconds() {
    if (!stamps_) return seconds_;
    note();
    add_up();
    return seconds_;
  }

 private:
  void note() {
    stamps_->mark();
    left_.push_back(now_);
    if (stamps_->room() < 2) add_up();
  }
  void add_up() {
    const std::vector<double> times = stamps_->take();
    for (std::size_t i = 0; i < left_.size(); ++i)
      seconds_[static_cast<std::size_t>(left_[i])] += times[i + 1] - times[i];
    left_.clear();
    stamps_->mark();
  }

  Phase now_ = Phase::other;
  std::unique_ptr<Stamps> stamps_;  // null: nothing is measured
  std::vector<Phase> left_;         // the phase that each mark but the first ended
  std::function<void(Phase)> leaving_;
  Seconds seconds_{};
};

// Runs work() in this phase, then returns to the previous one.
template <class Work>
void during(Phases& phases, Phase phase, Work&& work) {
  const Phase before = phases.turn_to(phase);
  work();
  phases.turn_to(before);
}

}  // namespace ft
