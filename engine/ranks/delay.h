// Tells a rank that keeps the others waiting from one that computes as long as all do. Fed twice a second
// with what rank 0 knows of all ranks (watch.h).
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
  static constexpr std::chrono::milliseconds kLeast{3000};  // waiting that is worth a word

  enum class Event { none, late, over };
  struct Seen {
    std::int64_t step;    // of rank 0; 0: none has begun
    std::uint64_t begun;  // collectives, by all ranks together: it stands still while one is missing
    bool waiting;         // whether a rank waits for another
  };

  // Late, once, when ranks have waited for kLeast and for longer than any step has taken; over, when they go
  // on after that. During the first step nothing is known of what is usual.
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
  Duration lasted() const { return lasted_; }  // the waiting that the last event is about

 private:
  std::int64_t step_ = 0;
  std::uint64_t begun_ = 0;
  bool said_ = false;
  bool delayed_ = false;  // this step, which says nothing of what is usual
  Time step_at_{}, since_{};
  Duration longest_{}, lasted_{};  // a step; the waiting
};

}  // namespace ft
