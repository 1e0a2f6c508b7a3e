// The parts of an optimizer step. Who runs a part says so (`turn_to`, `during`); tracers ask which one it is,
// and on request the seconds of each are added up.
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
                          {recompute, "recompute"},  // forward again, within a backward pass
                          {backward, "backward"},
                          {reduce, "reduce"},
                          {step, "step"},
                          {save, "save"}});
}

class Phases {
 public:
  using Seconds = std::array<double, words(Phase{}).size()>;

  Phase now() const { return now_; }
  // Returns the phase before.
  Phase turn_to(Phase next) {
    if (next != now_) {
      if (stamps_) note();
      if (leaving_) leaving_(now_);
    }
    return std::exchange(now_, next);
  }
  // Takes the times of the device's work from now on.
  void measure(std::unique_ptr<Stamps> stamps) {
    if (stamps_) return;
    stamps_ = std::move(stamps);
    stamps_->mark();
  }
  // leaving(phase) is called at each turn from now on.
  void watch(std::function<void(Phase)> leaving) { leaving_ = std::move(leaving); }
  // So far, when the device's work is done; all 0 where nothing is measured.
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
  std::vector<Phase> left_;         // at each mark but the first
  std::function<void(Phase)> leaving_;
  Seconds seconds_{};
};

// work() as a part of this phase, within whatever phase it is.
template <class Work>
void during(Phases& phases, Phase phase, Work&& work) {
  const Phase before = phases.turn_to(phase);
  work();
  phases.turn_to(before);
}

}  // namespace ft
