// The screen for people: standard error. On a terminal it can keep one or a few live lines at the bottom,
// redrawn in place. Elsewhere (a file, a job's log) it writes only complete lines and no control characters.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/train/config.h"

namespace ft {

class Screen {
 public:
  struct Options {
    bool live = false;  // a live line is drawn
    bool colour = false;
    bool utf8 = false;            // may draw characters outside ASCII
    std::function<int()> width;   // current columns; empty: lines are not wrapped
    std::function<int()> height;  // current lines; empty: not a terminal
    std::function<void(const std::string&)> write;
  };
  explicit Screen(Options options) : o_(std::move(options)) {}
  ~Screen() { clear(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Returns options for this process's stderr: colour on a terminal unless NO_COLOR is set or TERM is dumb.
  // `progress` is logging.progress: "bar" draws a live line even without a terminal, "full" only on a
  // terminal.
  static Options standard_error(ProgressStyle progress = ProgressStyle::by_terminal);
  // Returns options for stdout, for a command's answer: no live line, colour as for stderr.
  static Options standard_output();

  bool live() const { return o_.live; }
  bool utf8() const { return o_.utf8; }
  int width() const;   // columns; 0: no limit
  int height() const;  // lines; 0: unknown

  // Writes a line above the live line. Wraps words that do not fit into next lines, indented by `indent`;
  // with kWhole does not wrap.
  static constexpr int kWhole = -1;
  void line(const std::string& text, int indent = 0);
  // Sets the live line, or several of them one below the other. They are drawn at most ten times per second.
  // Drawing calls `make` with the current number of columns. Several lines need a screen of known and greater
  // height.
  void live_line(std::function<std::string(int)> make);
  void clear();  // removes the live line

  std::string bold(const std::string& text) const { return coloured("1", text); }
  std::string dim(const std::string& text) const { return coloured("2", text); }
  std::string yellow(const std::string& text) const { return coloured("33", text); }
  std::string green(const std::string& text) const { return coloured("32", text); }

 private:
  using Clock = std::chrono::steady_clock;
  std::string coloured(const char* code, const std::string& text) const;
  std::string wrapped(const std::string& text, int indent) const;
  std::string drawn();
  std::string erased();
  std::int64_t rows() const;

  Options o_;
  std::function<std::string(int)> make_;
  std::vector<std::int64_t> shown_;  // columns of the drawn live lines
  Clock::time_point last_{};
};

// Shows the progress of a task of known size: nothing for half a second, then a live line with the finished
// part and the remaining time. `unit` names the parts ("bytes": shown as memory).
class Working {
 public:
  Working(Screen& screen, std::string what, std::string unit = "");
  ~Working() { screen_.clear(); }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
  void operator()(std::int64_t done, std::int64_t of);

 private:
  Screen& screen_;
  std::string what_, unit_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ft
