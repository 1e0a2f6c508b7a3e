// Tells a rank that keeps the others waiting from a rank that computes as long as all do. Called twice a
// second with rank 0's knowledge of all ranks (watch.h).
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace ft {

class Delay {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  static constexpr std::chrono::milliseconds kLeast{3000};  // the shortest waiting that is reported

  enum class Event { none, late, over };
  struct Seen {
    std::int64_t step;    // rank 0's; 0: no step has begun
    std::uint64_t begun;  // collectives begun by all ranks together; does not grow while a rank is missing
    bool waiting;         // whether a rank waits for another
  };

  // Returns `late`, once, when ranks have waited for kLeast and longer than any step has taken, and `over`
  // when they continue after that. Reports nothing before the second step, because no step's duration is
  // known.
  Event look(Time now, const Seen& s) {
    if (s.step != step_) {
      if (step_ > 0 && !delayed_) longest_ = std::max(longest_, now - step_at_);
      delayed_ = said_;
      step_ = s.step;
      step_at_ = now;
    }
    lasted_ = now - since_;
    if (s.begun != begun_ || (!s.waiting && !said_)) {
      begun_ = s.begun;
      since_ = now;
      return std::exchange(said_, false) ? Event::over : Event::none;
    }
    if (said_ || s.step < 2 || lasted_ < std::max<Duration>(kLeast, longest_)) return Event::none;
    said_ = delayed_ = true;
    return Event::late;
  }
  Duration lasted() const { return lasted_; }  // duration of the waiting in the last event

 private:
  std::int64_t step_ = 0;
  std::uint64_t begun_ = 0;
  bool said_ = false;
  bool delayed_ = false;  // this step is delayed, so its duration is not typical
  Time step_at_{}, since_{};
  Duration longest_{}, lasted_{};  // longest undelayed step; duration of the waiting
};

}  // namespace ft
