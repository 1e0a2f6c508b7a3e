// The parts of an optimizer step. Who runs a part says so (`turn_to`, `during`); tracers ask which one it is,
// and on request the seconds of each are added up.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "engine/core/words.h"

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
      if (synchronize_) note();
      if (leaving_) leaving_(now_);
    }
    return std::exchange(now_, next);
  }
  // From now on times are taken; at each turn the device finishes its work first.
  void measure(std::function<void()> synchronize) {
    if (synchronize_) return;
    synchronize_ = std::move(synchronize);
    since_ = Clock::now();
  }
  // leaving(phase) is called at each turn from now on.
  void watch(std::function<void(Phase)> leaving) { leaving_ = std::move(leaving); }
  // So far; all 0 where nothing is measured.
  Seconds seconds() {
    if (synchronize_) note();
    return seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void note() {
    synchronize_();
    const Clock::time_point now = Clock::now();
    seconds_[static_cast<std::size_t>(now_)] += std::chrono::duration<double>(now - since_).count();
    since_ = now;
  }

  Phase now_ = Phase::other;
  std::function<void()> synchronize_;  // empty: nothing is measured
  std::function<void(Phase)> leaving_;
  Clock::time_point since_;
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
