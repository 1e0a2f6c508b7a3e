// Lines that show a pull to people.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace ft::hub {

struct Pulled;

// The first line: "fetching org/name: 12 files, 13.5 GB".
std::string begin_line(const std::string& id, std::int64_t files, std::int64_t bytes);
// The last line: "pulled   org/name, 12 files, 13.5 GB in 2m41s -> FOLDER".
std::string end_line(const std::string& id, const Pulled& pulled);

// The line while files are fetched: share, bar, rate, time left.
class PullLine {
 public:
  using Clock = std::chrono::steady_clock;
  // `bytes`: of all files; `there`: bytes that are on disk at the beginning.
  PullLine(std::string id, std::int64_t bytes, std::int64_t there, Clock::time_point now = Clock::now());

  // Takes the bytes on disk, and the bytes that came over the network.
  void update(std::int64_t there, std::int64_t received, Clock::time_point now = Clock::now());
  // Returns the line for a screen of `width` columns (0: no limit, and no bar).
  std::string text(int width, bool utf8) const;
  // Returns true every ten seconds, for logs, which get complete lines.
  bool due();

 private:
  double rate() const;  // bytes per second, over the last seconds; 0: unknown

  struct Sample {
    Clock::time_point time;
    std::int64_t received;
  };
  std::string id_;
  std::int64_t bytes_, there_;
  std::deque<Sample> samples_;
  Clock::time_point shown_;
};

}  // namespace ft::hub
