// SIGTERM (schedulers), SIGUSR1 (their advance warning), SIGINT (Ctrl-C), SIGHUP (closed terminal) and
// SIGPIPE (closed output) ask a run to save and stop. SIGUSR2 asks it to save and go on.
#pragma once
#include <cstdint>
#include <string>

namespace ft {

// Ways to acknowledge a signal on stderr at once: not at all, with a line, or with a line over the live line.
enum class Acknowledge : std::uint8_t { no, by_line, over_live_line };

class StopSignals {
 public:
  // Catches the signals if `enabled`. A second SIGINT ends the program at once.
  explicit StopSignals(bool enabled, Acknowledge = Acknowledge::no);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool asked() const;
  std::string name() const;  // name of the signal that came

 private:
  bool enabled_;
};

// Catches SIGUSR2 while it exists, if `enabled`.
class SaveSignal {
 public:
  explicit SaveSignal(bool enabled);
  ~SaveSignal();
  SaveSignal(const SaveSignal&) = delete;
  SaveSignal& operator=(const SaveSignal&) = delete;

  // True once after the signal came, however often it did.
  bool take();

 private:
  bool enabled_;
};

// While this object exists, a first Ctrl-C is only noted, to stop one piece of work; a second one ends the
// program.
class NotedInterrupt {
 public:
  explicit NotedInterrupt(bool enabled);
  ~NotedInterrupt();
  NotedInterrupt(const NotedInterrupt&) = delete;
  NotedInterrupt& operator=(const NotedInterrupt&) = delete;

  bool asked() const;

 private:
  bool enabled_;
};

}  // namespace ft
