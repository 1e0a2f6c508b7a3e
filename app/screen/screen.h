// The screen for people: standard error. On a terminal it can keep a live line at the bottom, or a few,
// redrawn in place; anywhere else (a file, a job's log) it writes only whole lines and no control characters.
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
    bool utf8 = false;            // may draw with more than ASCII
    std::function<int()> width;   // columns now; empty: lines are not wrapped
    std::function<int()> height;  // lines now; empty: it is no terminal
    std::function<void(const std::string&)> write;
  };
  explicit Screen(Options options) : o_(std::move(options)) {}
  ~Screen() { clear(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Standard error as it is: colour on a terminal unless NO_COLOR is set or TERM is dumb. `progress` is
  // logging.progress; with bar there is a live line even without a terminal, with full only on one.
  static Options standard_error(ProgressStyle progress = ProgressStyle::by_terminal);
  // Standard output for a command's answer: no live line, colour as above.
  static Options standard_output();

  bool live() const { return o_.live; }
  bool utf8() const { return o_.utf8; }
  int width() const;   // columns; 0: not limited
  int height() const;  // lines; 0: not known

  // A whole line, above the live one. Words that do not fit go on in a next line, indented by `indent`, but
  // with kWhole the line is left to the terminal.
  static constexpr int kWhole = -1;
  void line(const std::string& text, int indent = 0);
  // What the live line shows from now on, or the live lines, one below the other; drawn at most ten times a
  // second. `make` is called when it is drawn, with the columns there are. Several lines are for a screen
  // whose height is known and greater.
  void live_line(std::function<std::string(int)> make);
  void clear();  // no live line any more

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
  std::vector<std::int64_t> shown_;  // columns of the live lines that are drawn
  Clock::time_point last_{};
};

// A task of known size that may take a while: nothing for half a second, then a live line with what is done
// and the time left, in units of `unit` ("bytes": as memory).
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
