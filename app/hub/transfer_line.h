// The line that shows people how far a transfer is.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace ft::hub {

// The line while files are fetched or sent: share, bar, rate, time left.
class TransferLine {
 public:
  using Clock = std::chrono::steady_clock;
  // `bytes`: of all files; `there`: bytes that need no transfer.
  TransferLine(std::string id, std::int64_t bytes, std::int64_t there, Clock::time_point now = Clock::now());

  // Takes the bytes that are at their end, and the bytes that went over the network.
  void update(std::int64_t there, std::int64_t moved, Clock::time_point now = Clock::now());
  // Returns the line for a screen of `width` columns (0: no limit, and no bar).
  std::string text(int width, bool utf8) const;
  // Returns true every ten seconds, for logs, which get complete lines.
  bool due();

 private:
  double rate() const;  // bytes per second, over the last seconds; 0: unknown

  struct Sample {
    Clock::time_point time;
    std::int64_t moved;
  };
  std::string id_;
  std::int64_t bytes_, there_;
  std::deque<Sample> samples_;
  Clock::time_point shown_;
};

}  // namespace ft::hub
