// SIGTERM (schedulers), SIGUSR1 (a warning ahead of it) and SIGINT (Ctrl-C) ask a run to save and stop.
#pragma once
#include <string>

namespace ft {

class StopSignals {
 public:
  // enabled: SIGTERM and SIGUSR1 are caught, and a first SIGINT; a second one ends the program at once.
  explicit StopSignals(bool enabled);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool asked() const;
  std::string name() const;  // of the signal that came

 private:
  bool enabled_;
};

// While it lives a first Ctrl-C is only noted, to stop one piece of work; a second one ends the program.
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
