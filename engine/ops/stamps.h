// Measures times of work in a device's queue without waiting for each piece: marks are queued between pieces
// of work, and their times are read later, all at once.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ft {

// Seconds on the steady clock.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Stamps {
 public:
  virtual ~Stamps() = default;
  // Puts a mark after all work so far; there must be room(). Returns its index in the result of the next
  // take().
  virtual std::size_t mark() = 0;
  virtual std::int64_t room() const = 0;  // marks that fit until take()
  // Waits for all marks since the last call and returns their times on the steady clock, in order.
  virtual std::vector<double> take() = 0;
};

// For devices whose calls return when their work is done.
class HostStamps final : public Stamps {
 public:
  explicit HostStamps(std::int64_t most) : most_(most) {}
  std::size_t mark() override {
    times_.push_back(steady_seconds());
    return times_.size() - 1;
  }
  std::int64_t room() const override { return most_ - static_cast<std::int64_t>(times_.size()); }
  std::vector<double> take() override { return std::exchange(times_, {}); }

 private:
  std::int64_t most_;
  std::vector<double> times_;
};

}  // namespace ft
